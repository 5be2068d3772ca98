// Operations that work on each row by itself, with random options, on views that lie anywhere in their
// buffers.
#pragma once

#include "kernels/selftest/support.h"

#include <functional>
#include <string>

namespace orrery::kernels::selftest {

struct RowCase {
    std::string operation;
    std::string shape;
    int rows = 0;
    /// Of a difference from the reference, in units of the largest result, or of 1 where all are smaller.
    double bound = 1e-5;
    /// All that the operation writes for some of the rows, row by row, each row equally long.
    std::function<Floats(Backend& backend, int first, int rows)> run;
};

RowCase norm_case(Random& random);
RowCase gate_case(Random& random);
RowCase add_case(Random& random);
RowCase soft_cap_case(Random& random);
RowCase route_case(Random& random);
RowCase combine_case(Random& random);

/// expert_linear. Where no inputs are weighed, what every device has to give is what its own linear() gives
/// for each row and the rows of the weight that are its expert's, bit for bit: `expected` computes that.
struct ExpertCase : RowCase {
    std::function<Floats(Backend& backend)> expected;
};
ExpertCase expert_case(TensorType type, Random& random);

} // namespace orrery::kernels::selftest
