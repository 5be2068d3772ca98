// Random weights in any block format, with scales of a sensible size.
#pragma once

#include "kernels/quant/block_layouts.h"
#include "kernels/quant/half.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace orrery::kernels::test {

/// A scale between about 2⁻⁸ and 2⁻⁵ of either sign.
inline float random_scale(std::mt19937& random) {
    const float size =
        std::ldexp(1.0f + static_cast<float>(random() % 1024) / 1024.0f, -8 + static_cast<int>(random() % 3));
    return random() % 4 == 0 ? -size : size;
}

template <class Block>
void tame(Block& block, std::mt19937& random) {
    if constexpr (requires { block.d = uint16_t{}; })
        block.d = f32_to_f16(random_scale(random));
    if constexpr (requires { block.dmin; })
        block.dmin = f32_to_f16(random_scale(random));
    if constexpr (requires { block.m; })
        block.m = f32_to_f16(random_scale(random));
    if constexpr (requires { block.e; })
        block.e = static_cast<uint8_t>(117 + random() % 6);
    if constexpr (requires { block.value; })
        block.value = random_scale(random);
    if constexpr (std::is_same_v<Block, BlockF16>)
        block.bits = f32_to_f16(random_scale(random));
    if constexpr (std::is_same_v<Block, BlockBF16>)
        block.bits = f32_to_bf16(random_scale(random));
    if constexpr (std::is_same_v<Block, BlockIQ1_M>) {
        const uint16_t d = f32_to_f16(random_scale(random));
        for (int i = 0; i < 4; ++i)
            block.scales[i] = static_cast<uint16_t>((block.scales[i] & 0x0fff) | (d >> (4 * i) & 15) << 12);
    }
    if constexpr (std::is_same_v<Block, BlockNVFP4>)
        for (uint8_t& d : block.d)
            d = static_cast<uint8_t>(d % 0x30);
}

template <class... Blocks>
struct BlockList {
    template <class Body>
    static void each(Body body) {
        (body(Blocks{}), ...);
    }
};
using AllBlocks = BlockList<BlockF32, BlockF16, BlockBF16, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1,
                            BlockQ8_0, BlockIQ4_NL, BlockMXFP4, BlockNVFP4, BlockQ2_K, BlockQ3_K, BlockQ4_K,
                            BlockQ5_K, BlockQ6_K, BlockIQ2_XXS, BlockIQ2_XS, BlockIQ2_S, BlockIQ3_XXS,
                            BlockIQ3_S, BlockIQ1_S, BlockIQ1_M, BlockIQ4_XS, BlockTQ1_0, BlockTQ2_0>;

/// [rows, columns] of `type`: random bytes but for the scales.
inline std::vector<std::byte> random_weights(TensorType type, int64_t rows, int64_t columns,
                                             std::mt19937& random) {
    std::vector<std::byte> bytes(row_bytes(type, static_cast<size_t>(columns)) * static_cast<size_t>(rows));
    for (std::byte& b : bytes)
        b = static_cast<std::byte>(random() & 255);
    AllBlocks::each([&](auto block) {
        if (block.type != type)
            return;
        for (size_t at = 0; at < bytes.size(); at += sizeof block) {
            std::memcpy(&block, bytes.data() + at, sizeof block);
            tame(block, random);
            std::memcpy(bytes.data() + at, &block, sizeof block);
        }
    });
    return bytes;
}

inline std::vector<float> random_floats(size_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values)
        v = normal(random);
    return values;
}

} // namespace orrery::kernels::test
