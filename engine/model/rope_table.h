// The rotations of rotary position embedding (Su et al. 2021), as a table.
#pragma once

#include "engine/model/config.h"

#include <vector>

namespace orrery {

/// Turns per position of each pair, [dimensions / 2], in radians: base^(−2i/dimensions), divided by the
/// factors of linear and Llama 3's scaling. Computed in float32 step by step as Hugging Face does: the
/// weights were trained with these roundings.
std::vector<float> rope_frequencies(const RopeConfig& rope);

/// Cosine and sine of each position below `positions` and each pair, [positions, dimensions / 2, 2].
/// Angles are in double precision, since float32 loses three digits of them at position 8,000. Throws
/// OutOfMemory.
std::vector<float> rope_table(const RopeConfig& rope, int positions);

} // namespace orrery
