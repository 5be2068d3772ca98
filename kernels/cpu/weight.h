// A weight matrix as the CPU keeps it: its parts in the order of their rows, quantised ones packed, float
// ones where they lie in the file.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/packed_weight.h"

#include <cstdint>
#include <vector>

namespace orrery::kernels::cpu {

/// One part, or what is left of it.
struct WeightSlice {
    WeightPart part;
    int64_t first_row = 0;  ///< in the whole weight
    int64_t first_tile = 0; ///< tiles of 16 rows, counted through all parts
    size_t row_bytes = 0;   ///< in the file
    size_t row_stride = 0;  ///< bytes from one row to the next in the file
    bool is_packed = false;
    PackedMatrix packed;

    int64_t tiles() const { return (part.rows + tile_rows - 1) / tile_rows; }
};

struct CpuWeight {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t tiles = 0;
    std::vector<WeightSlice> slices;
    bool has_packed = false;
    bool has_dense = false;

    /// Bytes that one pass reads.
    size_t bytes() const;
    /// Bytes of memory that belong to the weight alone.
    size_t owned_bytes() const;
    /// The row as floats, from the file's bytes.
    void decode_row(int64_t row, float* target) const;
};

} // namespace orrery::kernels::cpu
