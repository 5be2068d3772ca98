#include "ui/knobs/knob_table.h"

#include <QCoreApplication>
#include <QLocale>

#include <algorithm>
#include <cmath>

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

QString translated(const char* words) {
    return QCoreApplication::translate("Parameters", words);
}

} // namespace

double Knob::clean(double value) const {
    const double grid = std::pow(10.0, decimals);
    return std::clamp(std::round(value * grid) / grid, parameter->lowest, parameter->highest);
}

QString meaning(const orrery::Parameter& parameter) {
    return Words::tr("%1.", "a sentence").arg(translated(parameter.meaning));
}

QString explanation(const orrery::Parameter& parameter) {
    QStringList notes;
    if (*parameter.unit)
        notes << translated(parameter.unit);
    for (const orrery::SpecialValue& special : parameter.special)
        if (special.means)
            notes << Words::tr("%1: %2", "value: what it means")
                         .arg(QLocale().toString(special.value), translated(special.means));
    if (notes.isEmpty())
        return meaning(parameter);
    return Words::tr("%1 (%2).", "a sentence with notes")
        .arg(translated(parameter.meaning), notes.join(Words::tr("; ", "between notes")));
}

std::vector<Knob> makeKnobs() {
    std::vector<Knob> knobs;
    const auto add = [&](KnobGroup group, const char* name, const QString& label, double low, double high,
                         double step, int decimals, QString (*idle)(const P&)) {
        Knob& knob = knobs.emplace_back();
        knob.parameter = &orrery::parameter(name);
        knob.group = group;
        knob.label = label;
        knob.explanation = explanation(*knob.parameter);
        knob.sliderLow = low;
        knob.sliderHigh = high;
        knob.step = step;
        knob.decimals = decimals;
        knob.idleBecause = idle;
        for (const orrery::SpecialValue& special : knob.parameter->special)
            if (special.means && special.value == knob.parameter->lowest)
                knob.lowestMeans = translated(special.means);
    };

    add(KnobGroup::Main, "temperature", Words::tr("Temperature"), 0, 2, 0.05, 2, [](const P& p) {
        return runs(p, Stage::temperature) || p.temperature == 0 ? QString() : notInOrder();
    });
    add(KnobGroup::Main, "top_p", Words::tr("Top-p"), 0, 1, 0.01, 2,
        [](const P& p) { return dropIdle(p, Stage::top_p); });
    add(KnobGroup::Main, "top_k", Words::tr("Top-k"), 0, 200, 1, 0,
        [](const P& p) { return dropIdle(p, Stage::top_k); });
    add(KnobGroup::Main, "min_p", Words::tr("Min-p"), 0, 1, 0.01, 2,
        [](const P& p) { return dropIdle(p, Stage::min_p); });

    add(KnobGroup::Truncation, "typical_p", Words::tr("Typical p"), 0, 1, 0.01, 2,
        [](const P& p) { return dropIdle(p, Stage::typical); });
    add(KnobGroup::Truncation, "top_n_sigma", Words::tr("Top-nσ"), 0, 5, 0.05, 2,
        [](const P& p) { return dropIdle(p, Stage::top_n_sigma); });
    add(KnobGroup::Truncation, "xtc_probability", Words::tr("XTC probability"), 0, 1, 0.01, 2,
        [](const P& p) { return dropIdle(p, Stage::xtc); });
    add(KnobGroup::Truncation, "xtc_threshold", Words::tr("XTC threshold"), 0, 0.5, 0.01, 2, [](const P& p) {
        return p.xtc_probability == 0 ? Words::tr("The probability of XTC is 0.") : dropIdle(p, Stage::xtc);
    });

    add(KnobGroup::Repetition, "repetition_penalty", Words::tr("Repetition penalty"), 1, 1.5, 0.01, 2,
        [](const P& p) {
            return p.penalty_range == 0 ? Words::tr("It looks back at 0 tokens.") : penaltiesIdle(p);
        });
    add(KnobGroup::Repetition, "penalty_range", Words::tr("Looks back at"), -1, 4096, 1, 0, [](const P& p) {
        return p.repetition_penalty == 1 ? Words::tr("The repetition penalty is 1.") : penaltiesIdle(p);
    });
    add(KnobGroup::Repetition, "frequency_penalty", Words::tr("Frequency penalty"), 0, 2, 0.05, 2,
        penaltiesIdle);
    add(KnobGroup::Repetition, "presence_penalty", Words::tr("Presence penalty"), 0, 2, 0.05, 2,
        penaltiesIdle);

    add(KnobGroup::Dry, "dry_multiplier", Words::tr("Multiplier"), 0, 5, 0.05, 2,
        [](const P& p) { return p.dry_range == 0 ? Words::tr("It looks back at 0 tokens.") : dryIdle(p); });
    add(KnobGroup::Dry, "dry_base", Words::tr("Base"), 1, 4, 0.05, 2, dryDetailIdle);
    add(KnobGroup::Dry, "dry_allowed_length", Words::tr("Free length"), 0, 20, 1, 0, dryDetailIdle);
    add(KnobGroup::Dry, "dry_range", Words::tr("Looks back at"), -1, 4096, 1, 0, dryDetailIdle);

    add(KnobGroup::Mirostat, "mirostat", Words::tr("Mirostat 2"), 0, 2, 2, 0, [](const P& p) {
        return p.temperature == 0 ? Words::tr("At temperature 0 the likeliest token is always taken.")
                                  : QString();
    });
    add(KnobGroup::Mirostat, "mirostat_tau", Words::tr("Target surprise τ"), 0, 10, 0.1, 2,
        mirostatDetailIdle);
    add(KnobGroup::Mirostat, "mirostat_eta", Words::tr("Learning rate η"), 0, 1, 0.01, 2, mirostatDetailIdle);
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
