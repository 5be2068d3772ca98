#include "kernels/cpu/cpu_features.h"

#include "kernels/error.h"

#include <cpuid.h>

#include <cstdint>
#include <cstdlib>

namespace orrery::kernels::cpu {

namespace {

/// XCR0: the register states that the operating system saves. XGETBV as bytes, so that no compiler flag is
/// needed to reach it.
uint64_t saved_states() {
    uint32_t low = 0, high = 0;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t{high} << 32 | low;
}

bool bit(uint32_t word, int index) {
    return (word >> index & 1u) != 0;
}

CpuFeatures read_features() {
    CpuFeatures f;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(0xb, 0, &a, &b, &c, &d) && (b & 0xffff) != 0) // the first level of the topology
        f.threads_per_core = static_cast<int>(b & 0xffff);
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) // OSXSAVE
        return f;
    const uint64_t saved = saved_states();
    const bool ymm_saved = (saved & 0x06) == 0x06;       // XMM and upper YMM
    const bool zmm_saved = (saved & 0xe6) == 0xe6;       // and masks, upper ZMM, ZMM16-31
    const bool amx_saved = (saved & 0x60000) == 0x60000; // tile configuration and data
    if (!ymm_saved || !bit(c, 28))
        return f;
    f.fma = bit(c, 12);
    f.f16c = bit(c, 29);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return f;
    f.avx2 = bit(b, 5);
    f.avx512 = zmm_saved && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
    f.avx512_vnni = f.avx512 && bit(c, 11);
    f.amx_int8 = amx_saved && bit(d, 24) && bit(d, 25);
    return f;
}

} // namespace

IsaLevel CpuFeatures::best() const {
    if (!avx2 || !fma || !f16c)
        return IsaLevel::none;
    return avx512_vnni ? IsaLevel::avx512_vnni : IsaLevel::avx2;
}

std::string CpuFeatures::missing_for_avx2() const {
    std::string names;
    const auto need = [&names](bool there, const char* name) {
        if (!there)
            names += (names.empty() ? "" : ", ") + std::string(name);
    };
    need(avx2, "AVX2");
    need(fma, "FMA");
    need(f16c, "F16C");
    return names;
}

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = read_features();
    return features;
}

IsaLevel choose_isa() {
    const IsaLevel best = cpu_features().best();
    const char* wish = std::getenv("ORRERY_CPU_ISA");
    if (wish == nullptr || *wish == '\0')
        return best;
    const std::string word = wish;
    if (word != "avx2" && word != "avx512")
        throw Error("ORRERY_CPU_ISA is '" + word + "': it is one of avx2, avx512.");
    const IsaLevel level = word == "avx2" ? IsaLevel::avx2 : IsaLevel::avx512_vnni;
    if (level > best)
        throw Error("ORRERY_CPU_ISA is '" + word + "', but this processor cannot run that path.");
    return level;
}

} // namespace orrery::kernels::cpu
