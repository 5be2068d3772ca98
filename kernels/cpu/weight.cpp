#include "kernels/cpu/weight.h"

namespace orrery::kernels::cpu {

size_t CpuWeight::bytes() const {
    size_t total = 0;
    for (const WeightSlice& slice : slices)
        total +=
            slice.is_packed ? slice.packed.bytes() : slice.row_bytes * static_cast<size_t>(slice.part.rows);
    return total;
}

size_t CpuWeight::owned_bytes() const {
    size_t total = 0;
    for (const WeightSlice& slice : slices)
        total += slice.is_packed ? slice.packed.bytes() : 0;
    return total;
}

void CpuWeight::decode_row(int64_t row, float* target) const {
    for (const WeightSlice& slice : slices) {
        const int64_t in_slice = row - slice.first_row;
        if (in_slice >= slice.part.rows)
            continue;
        decode(slice.part.type, slice.part.bytes + static_cast<size_t>(in_slice) * slice.row_stride, target,
               static_cast<size_t>(columns));
        return;
    }
}

} // namespace orrery::kernels::cpu
