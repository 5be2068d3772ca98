// The tiny floats of the OCP microscaling formats (MX v1.0) and of NVFP4: weights of four bits, scales of
// eight. Weights are given doubled, as integers, and scales therefore halved: their product is the same.
#pragma once

#include <bit>
#include <cstdint>

namespace orrery::kernels {

/// Twice the value of each E2M1 code (1 sign, 2 exponent, 1 fraction bit).
inline constexpr int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Half the value of an E8M0 scale, 2^(code − 127) / 2. Codes 0 and 1 give subnormal floats.
constexpr float e8m0_half_to_f32(uint8_t code) {
    const uint32_t bits = code < 2 ? 0x00200000u << code : (code - 1u) << 23;
    return std::bit_cast<float>(bits);
}

/// Half the value of an unsigned E4M3 scale (bias 7, subnormals; the top bit is ignored). 0x7f, the NaN of
/// E4M3, counts as zero.
constexpr float ue4m3_half_to_f32(uint8_t code) {
    const uint32_t exponent = (code >> 3) & 15u;
    const uint32_t fraction = code & 7u;
    if (code == 0x7f)
        return 0.0f;
    if (exponent == 0)
        return static_cast<float>(fraction) * 0x1p-10f; // fraction / 8 · 2⁻⁶ / 2
    return std::bit_cast<float>((exponent + 127 - 7 - 1) << 23 | fraction << 20);
}

} // namespace orrery::kernels
