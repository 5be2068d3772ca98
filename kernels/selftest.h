// Holds a back end against the reference on random shapes: law 9 (a faster kernel is near the truth) and
// law 1 (a row's result does not depend on the rows beside it, bit for bit).
//
// Shapes are chosen to be awkward: widths that are no multiple of any vector, 1 to 70 rows, one to several
// query heads per key head, sequences that cross block borders and come whole, in pieces, and several in a
// batch, blocks scattered over the cache. Every weight format and every kind of cache has its turn.
#pragma once

#include "kernels/backend.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace orrery::kernels {

struct SelftestOptions {
    uint32_t seed = 1;
    int repeats = 2;           ///< random shapes per operation and format
    bool long_contexts = true; ///< also sequences of some hundred tokens
    std::string only = {};     ///< a family such as "linear" or "attention", or empty for all
};

struct SelftestResult {
    std::string operation; ///< such as "linear Q4_1", or "linear Q4_1, rows alone" for law 1
    std::string shape;
    /// The largest difference from the reference of one element. In matrix products the unit is √Σ(peak ·
    /// w)²: what the element would measure if every activation were as large as the largest of its 32
    /// neighbours and had a random sign. In attention it is the size of a value. For law 1 and for copies:
    /// how many elements have other bits.
    double error = 0.0;
    double bound = 0.0; ///< what the formats allow; 0 where bits must be equal
    bool passed = false;
    std::string note; ///< the sentence of an error that the back end threw, or empty
};

/// Runs everything; `progress` sees each result as soon as it is there. An operation that throws is a result
/// that has not passed.
std::vector<SelftestResult> run_selftest(Backend& device, const SelftestOptions& options,
                                         const std::function<void(const SelftestResult&)>& progress = {});

} // namespace orrery::kernels
