// Random numbers as a pure function of what they are for.
//
// A counter-based generator has no state to share: a request's numbers depend neither on its neighbours nor
// on the order of work, and the number for any token can be had again at any time.
#pragma once

#include <array>
#include <cstdint>

namespace orrery {

/// The Philox 4×32 bijection with 10 rounds: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
/// as 1, 2, 3", SC 2011.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A number in [0, 1) of 53 random bits. `sample` and `position` name the token it is for: which of the
/// request's answers, and which place in its sequence. `draw` tells the numbers for one token apart.
double uniform(uint64_t seed, uint32_t sample, uint32_t position, uint32_t draw);

/// A seed for a request that brought none: 53 bits from the operating system, so that it survives a JSON
/// reader that keeps numbers as doubles.
uint64_t fresh_seed();

} // namespace orrery
