// Settings of the sampler that go well together.
#pragma once

#include "engine/request.h"

#include <QString>

#include <vector>

namespace orrery::ui {

struct Preset {
    QString name;
    QString explanation; ///< one sentence
    orrery::SamplingParams params;
};

/// The built-in presets, the default first, with words in the current language.
std::vector<Preset> builtInPresets();

} // namespace orrery::ui
