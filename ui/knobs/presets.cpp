#include "ui/knobs/presets.h"

#include <QCoreApplication>

namespace orrery::ui {

namespace {
class Words {
    Q_DECLARE_TR_FUNCTIONS(Presets)
};
} // namespace

std::vector<Preset> builtInPresets() {
    std::vector<Preset> presets;
    const auto add = [&](const QString& name, const QString& explanation) -> orrery::SamplingParams& {
        return presets.emplace_back(Preset{name, explanation, {}}).params;
    };
    add(Words::tr("Balanced"), Words::tr("The defaults: some freedom, hardly any nonsense."));
    add(Words::tr("Greedy"),
        Words::tr("Always the likeliest token: the same question gives the same answer."))
        .temperature = 0;

    orrery::SamplingParams& precise =
        add(Words::tr("Precise"), Words::tr("Little freedom, for facts, code and translations."));
    precise.temperature = 0.3f;
    precise.top_p = 0.9f;

    orrery::SamplingParams& inventive = add(
        Words::tr("Inventive"), Words::tr("Much freedom, held together by min-p, and no repeated passages."));
    inventive.temperature = 1.2f;
    inventive.top_k = 0;
    inventive.top_p = 1;
    inventive.min_p = 0.08f;
    inventive.dry_multiplier = 0.8f;

    orrery::SamplingParams& raw =
        add(Words::tr("The model itself"),
            Words::tr("Temperature 1 and nothing dropped: what the model learned."));
    raw.temperature = 1;
    raw.top_k = 0;
    raw.top_p = 1;
    raw.min_p = 0;
    return presets;
}

} // namespace orrery::ui
