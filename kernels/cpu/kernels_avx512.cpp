// The kernels compiled for AVX-512 F, BW, DQ, VL and VNNI. Nothing in here may leave this file but the table:
// an inline function of a library that was compiled with these flags could be linked in for all machines.
#define ORRERY_SIMD "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/kernel_set.inl.h"

namespace orrery::kernels::cpu {

const KernelTable& avx512_vnni_kernels() {
    static constexpr KernelTable table = make_table("CPU AVX-512 VNNI");
    return table;
}

} // namespace orrery::kernels::cpu
