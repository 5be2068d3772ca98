// What the knobs say about the sampling parameters: a label, a sentence, the useful part of the range, and
// when turning one would change nothing.
//
// Names, fields, limits and meanings are the engine's (engine/parameter_table.h); this table adds labels,
// groups and sliders.
#pragma once

#include "engine/parameter_table.h"

#include <QString>

#include <vector>

namespace orrery::ui {

enum class KnobGroup { Main, Truncation, Repetition, Dry, Mirostat };

struct Knob {
    const orrery::Parameter* parameter = nullptr;
    KnobGroup group = KnobGroup::Main;
    QString label;
    QString explanation;  ///< one sentence
    double sliderLow = 0; ///< the useful range; the number box takes all of the parameter's
    double sliderHigh = 1;
    double step = 0.01;
    int decimals = 2;
    QString lowestMeans; ///< what the lowest value stands for, such as "all"; may be empty
    /// Why turning it would change nothing at these settings; empty where it would.
    QString (*idleBecause)(const orrery::SamplingParams&) = nullptr;

    /// Off at the lowest value, on at the highest, and nothing between.
    bool isSwitch() const { return parameter->only_limits; }
    double defaultValue() const { return parameter->get(orrery::SamplingParams()); }
    /// `value` on the grid of `decimals`, within the parameter's limits.
    double clean(double value) const;
};

/// All knobs in the order in which they are shown, with words in the current language.
std::vector<Knob> makeKnobs();

/// What a parameter means, as a sentence in the current language.
QString meaning(const orrery::Parameter& parameter);
/// The same with the parameter's unit and special values.
QString explanation(const orrery::Parameter& parameter);

/// The title of a group in the current language; empty for the first, which needs none.
QString knobGroupTitle(KnobGroup group);

/// Why a seed would change nothing at these settings; empty where it would.
QString seedIdleBecause(const orrery::SamplingParams& params);

} // namespace orrery::ui
