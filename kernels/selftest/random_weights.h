// Random weights of every format, for the selftest.
#pragma once

#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace orrery::kernels::selftest {

/// [rows, columns] random blocks: all quants, signs and small scales are random bits; the floats that scale
/// whole blocks are finite and of one order of magnitude, as in a real model.
std::vector<std::byte> random_weights(TensorType type, int64_t rows, int64_t columns, std::mt19937& random);

} // namespace orrery::kernels::selftest
