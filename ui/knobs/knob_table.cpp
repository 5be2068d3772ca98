#include "ui/knobs/knob_table.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::ui {

namespace {

using P = orrery::SamplingParams;
using Stage = orrery::SamplerStage;

class Words {
    Q_DECLARE_TR_FUNCTIONS(Knobs)
};

bool runs(const P& p, Stage stage) {
    return std::find(p.order.begin(), p.order.end(), stage) != p.order.end();
}

QString notInOrder() {
    return Words::tr("The order of the stages leaves it out.");
}

/// Stages that drop candidates: greedy choice needs none of them, and Mirostat replaces them.
QString dropIdle(const P& p, Stage stage) {
    if (p.temperature == 0)
        return Words::tr("At temperature 0 the likeliest token is always taken.");
    if (p.mirostat != 0)
        return Words::tr("Mirostat takes its place.");
    return runs(p, stage) ? QString() : notInOrder();
}

QString penaltiesIdle(const P& p) {
    return runs(p, Stage::penalties) ? QString() : notInOrder();
}

QString dryIdle(const P& p) {
    return runs(p, Stage::dry) ? QString() : notInOrder();
}

QString dryDetailIdle(const P& p) {
    if (p.dry_multiplier == 0)
        return Words::tr("The multiplier of DRY is 0.");
    return dryIdle(p);
}

QString mirostatDetailIdle(const P& p) {
    if (p.temperature == 0)
        return Words::tr("At temperature 0 the likeliest token is always taken.");
    return p.mirostat == 0 ? Words::tr("Mirostat is off.") : QString();
}

const orrery::SamplingParameter* find(const char* name) {
    for (const orrery::SamplingParameter& parameter : orrery::sampling_parameters())
        if (std::string_view(parameter.name) == name)
            return &parameter;
    Q_ASSERT_X(false, "makeKnobs", name);
    return nullptr;
}

} // namespace

double Knob::clean(double value) const {
    const double grid = std::pow(10.0, decimals);
    const double high = std::min(parameter->high, double(std::numeric_limits<int>::max()));
    return std::clamp(std::round(value * grid) / grid, parameter->low, high);
}

std::vector<Knob> makeKnobs() {
    std::vector<Knob> knobs;
    const auto add = [&](KnobGroup group, const char* name, const QString& label, const QString& explanation,
                         double low, double high, double step, int decimals,
                         QString (*idle)(const P&)) -> Knob& {
        Knob& knob = knobs.emplace_back();
        knob.parameter = find(name);
        knob.group = group;
        knob.label = label;
        knob.explanation = explanation;
        knob.sliderLow = low;
        knob.sliderHigh = high;
        knob.step = step;
        knob.decimals = decimals;
        knob.idleBecause = idle;
        return knob;
    };

    add(KnobGroup::Main, "temperature", Words::tr("Temperature"),
        Words::tr(
            "Flattens the choice above 1 and sharpens it below; at 0 the likeliest token is always taken."),
        0, 2, 0.05, 2, [](const P& p) {
            return runs(p, Stage::temperature) || p.temperature == 0 ? QString() : notInOrder();
        });
    add(KnobGroup::Main, "top_p", Words::tr("Top-p"),
        Words::tr("Keeps the smallest set of tokens whose probabilities add up to p; 1 keeps all."), 0, 1,
        0.01, 2, [](const P& p) { return dropIdle(p, Stage::top_p); });
    add(KnobGroup::Main, "top_k", Words::tr("Top-k"), Words::tr("Keeps the k likeliest tokens; 0 keeps all."),
        0, 200, 1, 0, [](const P& p) { return dropIdle(p, Stage::top_k); })
        .lowestMeans = Words::tr("all");
    add(KnobGroup::Main, "min_p", Words::tr("Min-p"),
        Words::tr("Drops tokens that are less likely than this share of the likeliest one; 0 drops none."), 0,
        1, 0.01, 2, [](const P& p) { return dropIdle(p, Stage::min_p); });

    add(KnobGroup::Truncation, "typical_p", Words::tr("Typical p"),
        Words::tr("Keeps the tokens whose surprise is closest to the expected one, until their probabilities "
                  "add up "
                  "to p; 1 keeps all."),
        0, 1, 0.01, 2, [](const P& p) { return dropIdle(p, Stage::typical); });
    add(KnobGroup::Truncation, "top_n_sigma", Words::tr("Top-nσ"),
        Words::tr("Keeps the tokens whose logits lie within n standard deviations of the largest; 0 is off."),
        0, 5, 0.05, 2, [](const P& p) { return dropIdle(p, Stage::top_n_sigma); })
        .lowestMeans = Words::tr("off");
    add(KnobGroup::Truncation, "xtc_probability", Words::tr("XTC probability"),
        Words::tr("The chance that all top choices but the least likely of them are dropped; 0 is off."), 0,
        1, 0.01, 2, [](const P& p) { return dropIdle(p, Stage::xtc); })
        .lowestMeans = Words::tr("off");
    add(KnobGroup::Truncation, "xtc_threshold", Words::tr("XTC threshold"),
        Words::tr("The probability from which a token counts as a top choice for XTC."), 0, 0.5, 0.01, 2,
        [](const P& p) {
            return p.xtc_probability == 0 ? Words::tr("The probability of XTC is 0.")
                                          : dropIdle(p, Stage::xtc);
        });

    add(KnobGroup::Repetition, "repetition_penalty", Words::tr("Repetition penalty"),
        Words::tr("Makes tokens that occurred in the prompt or the answer less likely; 1 is off."), 1, 1.5,
        0.01, 2, [](const P& p) {
            return p.penalty_range == 0 ? Words::tr("It looks back at 0 tokens.") : penaltiesIdle(p);
        });
    add(KnobGroup::Repetition, "penalty_range", Words::tr("Looks back at"),
        Words::tr("How many of the last tokens the repetition penalty looks at; 0 is none."), -1, 4096, 1, 0,
        [](const P& p) {
            return p.repetition_penalty == 1 ? Words::tr("The repetition penalty is 1.") : penaltiesIdle(p);
        })
        .lowestMeans = Words::tr("all");
    add(KnobGroup::Repetition, "frequency_penalty", Words::tr("Frequency penalty"),
        Words::tr("Is taken from a token's logit once for each time the answer has it; 0 is off."), 0, 2,
        0.05, 2, penaltiesIdle);
    add(KnobGroup::Repetition, "presence_penalty", Words::tr("Presence penalty"),
        Words::tr("Is taken from a token's logit as soon as the answer has it; 0 is off."), 0, 2, 0.05, 2,
        penaltiesIdle);

    add(KnobGroup::Dry, "dry_multiplier", Words::tr("Multiplier"),
        Words::tr("How strongly going on with a passage that was there before is penalised; 0 is off."), 0, 5,
        0.05, 2,
        [](const P& p) { return p.dry_range == 0 ? Words::tr("It looks back at 0 tokens.") : dryIdle(p); })
        .lowestMeans = Words::tr("off");
    add(KnobGroup::Dry, "dry_base", Words::tr("Base"),
        Words::tr("How fast the penalty grows with the length of the repeated passage."), 1, 4, 0.05, 2,
        dryDetailIdle);
    add(KnobGroup::Dry, "dry_allowed_length", Words::tr("Free length"),
        Words::tr("Repeated passages of up to this many tokens are not penalised."), 0, 20, 1, 0,
        dryDetailIdle);
    add(KnobGroup::Dry, "dry_range", Words::tr("Looks back at"),
        Words::tr("How many of the last tokens are searched for repeated passages; 0 is none."), -1, 4096, 1,
        0, dryDetailIdle)
        .lowestMeans = Words::tr("all");

    Knob& mirostat = add(
        KnobGroup::Mirostat, "mirostat", Words::tr("Mirostat 2"),
        Words::tr("Steers the surprise of the text to a target, in place of all stages that drop tokens."), 0,
        2, 2, 0, [](const P& p) {
            return p.temperature == 0 ? Words::tr("At temperature 0 the likeliest token is always taken.")
                                      : QString();
        });
    mirostat.isSwitch = true;
    mirostat.onValue = 2;
    add(KnobGroup::Mirostat, "mirostat_tau", Words::tr("Target surprise τ"),
        Words::tr("The surprise that Mirostat aims at, in bits per token."), 0, 10, 0.1, 2,
        mirostatDetailIdle);
    add(KnobGroup::Mirostat, "mirostat_eta", Words::tr("Learning rate η"),
        Words::tr("How fast Mirostat corrects itself."), 0, 1, 0.01, 2, mirostatDetailIdle);
    return knobs;
}

QString knobGroupTitle(KnobGroup group) {
    switch (group) {
    case KnobGroup::Main:
        return {};
    case KnobGroup::Truncation:
        return Words::tr("More ways to drop tokens");
    case KnobGroup::Repetition:
        return Words::tr("Repetition");
    case KnobGroup::Dry:
        return Words::tr("Repeated passages (DRY)");
    case KnobGroup::Mirostat:
        return Words::tr("Mirostat");
    }
    return {};
}

QString seedIdleBecause(const P& p) {
    return p.temperature == 0 ? Words::tr("At temperature 0 nothing is left to chance.") : QString();
}

} // namespace orrery::ui
