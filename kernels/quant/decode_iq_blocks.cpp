// Decoders of the IQ formats: groups of four or eight weights are points of a fixed grid, named by their
// index; signs and scales are kept apart.
#include "kernels/quant/block_layouts.h"
#include "kernels/quant/half.h"
#include "kernels/quant/iq_grids.h"

#include <bit>
#include <cstring>

namespace orrery::kernels {

namespace {

/// The eight signs of a grid point from seven stored bits: the number of minus signs is even.
uint8_t signs_of(uint32_t seven_bits) {
    return static_cast<uint8_t>(seven_bits | (std::popcount(seven_bits) & 1u) << 7);
}

/// out[i] = scale · point[i], negated where bit i of `signs` is set.
template <size_t N>
void write_point(const std::array<int8_t, N>& point, float scale, uint32_t signs, float* out) {
    for (size_t i = 0; i < N; ++i) {
        const float value = scale * static_cast<float>(point[i]);
        out[i] = (signs >> i) & 1 ? -value : value;
    }
}

uint32_t load_u32(const uint8_t* bytes) {
    uint32_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// Nibble `index` of a row of nibbles, low one first.
int nibble(const uint8_t* bytes, int index) {
    return (bytes[index / 2] >> (index % 2 * 4)) & 15;
}

} // namespace

void decode_block(const BlockIQ2_XXS& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int part = 0; part < 8; ++part) {
        const uint8_t* indices = block.qs + part * 8;
        const uint32_t signs_and_scale = load_u32(indices + 4);
        const float scale = d * (0.5f + static_cast<float>(signs_and_scale >> 28)) * 0.25f;
        for (int i = 0; i < 4; ++i, out += 8)
            write_point(iq2_xxs_grid[indices[i]], scale, signs_of((signs_and_scale >> (7 * i)) & 127), out);
    }
}

void decode_block(const BlockIQ2_XS& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i, out += 8) {
        const float scale = d * (0.5f + static_cast<float>(nibble(block.scales, i / 2))) * 0.25f;
        write_point(iq2_xs_grid[block.qs[i] & 511], scale, signs_of(block.qs[i] >> 9), out);
    }
}

void decode_block(const BlockIQ2_S& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i, out += 8) {
        const float scale = d * (0.5f + static_cast<float>(nibble(block.scales, i / 2))) * 0.25f;
        const int high = (block.qh[i / 4] >> (i % 4 * 2)) & 3;
        write_point(iq2_s_grid[block.qs[i] | high << 8], scale, block.signs[i], out);
    }
}

void decode_block(const BlockIQ3_XXS& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int part = 0; part < 8; ++part) {
        const uint8_t* indices = block.qs + part * 8;
        const uint32_t signs_and_scale = load_u32(block.signs_and_scales + part * 4);
        const float scale = d * (0.5f + static_cast<float>(signs_and_scale >> 28)) * 0.5f;
        for (int i = 0; i < 4; ++i, out += 8) {
            const uint32_t signs = signs_of((signs_and_scale >> (7 * i)) & 127);
            write_point(iq3_xxs_grid[indices[2 * i]], scale, signs, out);
            write_point(iq3_xxs_grid[indices[2 * i + 1]], scale, signs >> 4, out + 4);
        }
    }
}

void decode_block(const BlockIQ3_S& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 64; ++i, out += 4) {
        const float scale = d * static_cast<float>(1 + 2 * nibble(block.scales, i / 8));
        const int high = (block.qh[i / 8] >> (i % 8)) & 1;
        const uint32_t signs = block.signs[i / 2] >> (i % 2 * 4);
        write_point(iq3_s_grid[block.qs[i] | high << 8], scale, signs, out);
    }
}

namespace {

/// The grid of the IQ1 formats has the digits −1, 0, 1, all shifted by the same eighth up or down.
void write_shifted(const std::array<int8_t, 8>& point, float scale, bool down, float* out) {
    const float shift = down ? -0.125f : 0.125f;
    for (size_t i = 0; i < point.size(); ++i)
        out[i] = scale * (static_cast<float>(point[i]) + shift);
}

} // namespace

void decode_block(const BlockIQ1_S& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i, out += 8) {
        const int qh = block.qh[i / 4];
        const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7) + 1);
        const int high = (qh >> (i % 4 * 3)) & 7;
        write_shifted(iq1_grid[block.qs[i] | high << 8], scale, qh & 0x8000, out);
    }
}

void decode_block(const BlockIQ1_M& block, float* out) {
    int d_bits = 0;
    for (int i = 0; i < 4; ++i)
        d_bits |= (block.scales[i] >> 12) << (4 * i);
    const float d = f16_to_f32(static_cast<uint16_t>(d_bits));
    for (int i = 0; i < 32; ++i, out += 8) {
        const int part = i / 2; // 16 weights
        const float scale = d * static_cast<float>(2 * ((block.scales[part / 4] >> (part % 4 * 3)) & 7) + 1);
        const int qh = nibble(block.qh, i);
        write_shifted(iq1_grid[block.qs[i] | (qh & 7) << 8], scale, qh & 8, out);
    }
}

namespace {

/// The sixteen levels of IQ4, unevenly spaced: dense where weights are.
constexpr int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

} // namespace

void decode_block(const BlockIQ4_NL& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>(iq4_levels[block.qs[i] & 15]);
        out[i + 16] = d * static_cast<float>(iq4_levels[block.qs[i] >> 4]);
    }
}

void decode_block(const BlockIQ4_XS& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int part = 0; part < 8; ++part, out += 32) {
        const int high = (block.scales_h >> (2 * part)) & 3;
        const float scale = d * static_cast<float>((nibble(block.scales_l, part) | high << 4) - 32);
        for (int i = 0; i < 16; ++i) {
            const uint8_t pair = block.qs[part * 16 + i];
            out[i] = scale * static_cast<float>(iq4_levels[pair & 15]);
            out[i + 16] = scale * static_cast<float>(iq4_levels[pair >> 4]);
        }
    }
}

} // namespace orrery::kernels
