// The two 16-bit float formats and their way to and from float32.
//
// binary16 (IEEE 754): 1 sign, 5 exponent (bias 15), 10 fraction bits. bfloat16: the upper half of a
// float32. Widening is exact. Narrowing rounds to nearest, ties to even; what is too large becomes
// infinity, a NaN stays a (quiet) NaN. No function branches, and none needs subnormal float32 arithmetic,
// so the results do not depend on a thread's flush-to-zero mode.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace orrery::kernels {

/// The float32 that the binary16 value `half` stands for.
constexpr float f16_to_f32(uint16_t half) {
    constexpr uint32_t exponent_mask = 0x7c00u << 13; // the exponent of a half, moved to its place in a float
    constexpr uint32_t rebias = (127 - 15) << 23;

    const uint32_t sign = (half & 0x8000u) << 16;
    const uint32_t magnitude = (half & 0x7fffu) << 13;
    const uint32_t exponent = magnitude & exponent_mask;

    // Infinity and NaN: the largest exponent of a half (31) becomes the largest of a float (255).
    const uint32_t normal = magnitude + rebias + (exponent == exponent_mask ? rebias : 0);
    // A subnormal half is fraction · 2⁻²⁴. As a fraction of 2⁻¹⁴ · 1.xxx the leading one comes for free;
    // subtracting it leaves the value.
    constexpr uint32_t smallest_normal = rebias + (1u << 23); // 2⁻¹⁴
    const float subnormal =
        std::bit_cast<float>(magnitude + smallest_normal) - std::bit_cast<float>(smallest_normal);

    return std::bit_cast<float>(sign | (exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal));
}

/// The binary16 value nearest to `value`.
constexpr uint16_t f32_to_f16(float value) {
    constexpr uint32_t infinity = 0x7f800000;
    constexpr uint32_t smallest_normal = (127 - 14) << 23; // 2⁻¹⁴
    constexpr uint32_t rebias = (127 - 15) << 23;

    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;

    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    // Adding just under half a unit of the last place kept, plus that place's lowest bit, rounds ties to
    // even; a carry runs into the exponent as it should, up to infinity.
    const uint32_t rounded = (magnitude - rebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t normal = std::min(rounded, 0x7c00u);
    // The last place of 0.5f is 2⁻²⁴, the unit of a subnormal half: the addition itself rounds.
    const float shifted = std::bit_cast<float>(std::min(magnitude, smallest_normal)) + 0.5f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);

    const uint32_t finite = magnitude < smallest_normal ? subnormal : normal;
    return static_cast<uint16_t>(sign | (magnitude > infinity ? nan : finite));
}

/// The finite binary16 value nearest to `value`: what lies beyond its reach saturates.
constexpr uint16_t f32_to_finite_f16(float value) {
    return f32_to_f16(std::clamp(value, -65504.0f, 65504.0f));
}

/// The float32 that the bfloat16 value `half` stands for.
constexpr float bf16_to_f32(uint16_t half) {
    return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

/// The bfloat16 value nearest to `value`.
constexpr uint16_t f32_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t nan = (bits >> 16) | 0x40u; // quiet, and never by accident an infinity
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

} // namespace orrery::kernels
