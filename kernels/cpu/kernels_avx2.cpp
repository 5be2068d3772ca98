// The kernels compiled for AVX2, FMA and F16C. Nothing in here may leave this file but the table: an inline
// function of a library that was compiled with these flags could be linked in for all machines.
#define ORRERY_SIMD "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/kernel_set.inl.h"

namespace orrery::kernels::cpu {

const KernelTable& avx2_kernels() {
    static constexpr KernelTable table = make_table("CPU AVX2");
    return table;
}

} // namespace orrery::kernels::cpu
