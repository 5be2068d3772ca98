#include "kernels/error.h"
#include "kernels/quant/block_layouts.h"
#include "kernels/quant/half.h"
#include "kernels/quant/tensor_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace orrery::kernels {

namespace {

/// 1 / scale, or 0 where the scale is zero and every quant is to be the middle one.
float inverse(float scale) {
    return scale == 0.0f ? 0.0f : 1.0f / scale;
}

/// `value` rounded to the nearest integer of [low, high]; NaN becomes `low`.
int nearest(float value, int low, int high) {
    const auto bottom = static_cast<float>(low);
    const auto top = static_cast<float>(high);
    return static_cast<int>(std::nearbyint(value > bottom ? std::min(value, top) : bottom));
}

void encode_block(const float* weights, BlockF32& block) {
    block.value = *weights;
}

void encode_block(const float* weights, BlockF16& block) {
    block.bits = f32_to_f16(*weights);
}

void encode_block(const float* weights, BlockBF16& block) {
    block.bits = f32_to_bf16(*weights);
}

void encode_block(const float* weights, BlockQ8_0& block) {
    float largest = 0.0f;
    for (int i = 0; i < 32; ++i)
        largest = std::max(largest, std::abs(weights[i]));
    block.d = f32_to_finite_f16(largest / 127.0f);
    const float inverse_d = inverse(f16_to_f32(block.d));
    for (int i = 0; i < 32; ++i)
        block.qs[i] = static_cast<int8_t>(nearest(weights[i] * inverse_d, -127, 127));
}

void encode_block(const float* weights, BlockQ4_0& block) {
    // The levels are −8 … 7 steps; the weight of largest magnitude, whatever its sign, takes the −8.
    float extreme = 0.0f;
    for (int i = 0; i < 32; ++i)
        if (std::abs(weights[i]) > std::abs(extreme))
            extreme = weights[i];
    block.d = f32_to_finite_f16(extreme / -8.0f);
    const float inverse_d = inverse(f16_to_f32(block.d));
    const auto quant = [&](int i) { return nearest(weights[i] * inverse_d, -8, 7) + 8; };
    for (int i = 0; i < 16; ++i)
        block.qs[i] = static_cast<uint8_t>(quant(i) | quant(i + 16) << 4);
}

void encode_block(const float* weights, BlockQ4_1& block) {
    const auto [least, greatest] = std::minmax_element(weights, weights + 32);
    block.m = f32_to_finite_f16(*least);
    const float m = f16_to_f32(block.m);
    block.d = f32_to_finite_f16((*greatest - m) / 15.0f);
    const float inverse_d = inverse(f16_to_f32(block.d));
    const auto quant = [&](int i) { return nearest((weights[i] - m) * inverse_d, 0, 15); };
    for (int i = 0; i < 16; ++i)
        block.qs[i] = static_cast<uint8_t>(quant(i) | quant(i + 16) << 4);
}

template <typename Block>
void encode_blocks(const float* source, std::byte* target, size_t elements) {
    for (size_t i = 0; i < elements; i += Block::elements, target += sizeof(Block)) {
        Block block;
        encode_block(source + i, block);
        std::memcpy(target, &block, sizeof block);
    }
}

} // namespace

void encode(TensorType type, const float* source, std::byte* target, size_t elements) {
    switch (type) {
    case TensorType::F32:
        return encode_blocks<BlockF32>(source, target, elements);
    case TensorType::F16:
        return encode_blocks<BlockF16>(source, target, elements);
    case TensorType::BF16:
        return encode_blocks<BlockBF16>(source, target, elements);
    case TensorType::Q8_0:
        return encode_blocks<BlockQ8_0>(source, target, elements);
    case TensorType::Q4_0:
        return encode_blocks<BlockQ4_0>(source, target, elements);
    case TensorType::Q4_1:
        return encode_blocks<BlockQ4_1>(source, target, elements);
    default:
        throw Error(std::string("Weights cannot be encoded as ") + info(type).name +
                    ": only F32, F16, BF16, Q8_0, Q4_0 and Q4_1 can be written.");
    }
}

} // namespace orrery::kernels
