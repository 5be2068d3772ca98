// What this processor and its operating system allow: the one table that chooses between the code paths.
#pragma once

#include <string>

namespace orrery::kernels::cpu {

/// Code paths, from the plainest to the best. A path needs all that the ones before it need.
enum class IsaLevel {
    none,        ///< not even AVX2, FMA and F16C
    avx2,        ///< AVX2, FMA, F16C
    avx512_vnni, ///< AVX-512 F, BW, DQ, VL and VNNI
};

struct CpuFeatures {
    bool avx2 = false;
    bool fma = false;
    bool f16c = false;
    bool avx512 = false; ///< F, BW, DQ and VL
    bool avx512_vnni = false;
    bool amx_int8 = false; ///< the processor has it; no path uses it yet
    int threads_per_core = 1;

    /// The best path that can run here.
    IsaLevel best() const;
    /// The names of what avx2 needs and this machine lacks, such as "AVX2, F16C"; empty where nothing lacks.
    std::string missing_for_avx2() const;
};

/// Read once: what CPUID reports and the operating system saves on a context switch (XGETBV).
const CpuFeatures& cpu_features();

/// The path to take: the best one, or a lower one that the environment variable ORRERY_CPU_ISA names
/// ("avx2" or "avx512"), so that every path can be tested on one machine. Throws Error where the variable
/// names an unknown path or one that cannot run here.
IsaLevel choose_isa();

} // namespace orrery::kernels::cpu
