// What the knobs say about the sampling parameters: a label, a sentence, the useful part of the range, and
// when turning one would change nothing.
//
// Names, fields and limits are the engine's (engine/sampling_parameters.h); this table adds what a person
// needs.
#pragma once

#include "engine/sampling_parameters.h"

#include <QString>

#include <vector>

namespace orrery::ui {

enum class KnobGroup { Main, Truncation, Repetition, Dry, Mirostat };

struct Knob {
    const orrery::SamplingParameter* parameter = nullptr;
    KnobGroup group = KnobGroup::Main;
    QString label;
    QString explanation;  ///< one sentence
    double sliderLow = 0; ///< the useful range; the number box takes all of the parameter's
    double sliderHigh = 1;
    double step = 0.01;
    int decimals = 2;
    QString lowestMeans;   ///< what the lowest value stands for, such as "all"; may be empty
    bool isSwitch = false; ///< Mirostat: off or on
    double onValue = 1;    ///< of a switch
    /// Why turning it would change nothing at these settings; empty where it would.
    QString (*idleBecause)(const orrery::SamplingParams&) = nullptr;

    double defaultValue() const { return parameter->get(orrery::SamplingParams()); }
    /// `value` on the grid of `decimals`, within the parameter's limits.
    double clean(double value) const;
};

/// All knobs in the order in which they are shown, with words in the current language.
std::vector<Knob> makeKnobs();

/// The title of a group in the current language; empty for the first, which needs none.
QString knobGroupTitle(KnobGroup group);

/// Why a seed would change nothing at these settings; empty where it would.
QString seedIdleBecause(const orrery::SamplingParams& params);

} // namespace orrery::ui
