#include "kernels/quant/kv_row.h"

#include "kernels/quant/half.h"
#include "kernels/quant/tensor_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace orrery::kernels {

namespace {

constexpr size_t group_elements = 32;

/// What a group is as a block, for the kinds that are blocks of a model file too.
constexpr TensorType element_type(KvType type) {
    switch (type) {
    case KvType::f16:
        return TensorType::F16;
    case KvType::int8:
        return TensorType::Q8_0;
    default:
        return TensorType::F32;
    }
}

/// 16 elements on levels 0 … 15 of a scale above a least value.
struct Levels {
    uint16_t d = 0;
    uint16_t m = 0;
    uint8_t quants[16] = {};
    float error = 0.0f; ///< sum of squares
};

Levels round_to_levels(const float* elements, float d, float m) {
    Levels levels;
    levels.d = f32_to_finite_f16(d);
    levels.m = f32_to_finite_f16(m);
    const float scale = f16_to_f32(levels.d);
    const float least = f16_to_f32(levels.m);
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    for (int i = 0; i < 16; ++i) {
        const float level = (elements[i] - least) * inverse;
        // Written so that NaN becomes 0. No level is negative: half more, cut off, is the nearest.
        const auto quant = static_cast<int>((level > 0.0f ? std::min(level, 15.0f) : 0.0f) + 0.5f);
        const float rest = elements[i] - (scale * static_cast<float>(quant) + least);
        levels.quants[i] = static_cast<uint8_t>(quant);
        levels.error += rest * rest;
    }
    return levels;
}

/// Levels from the least element to the greatest; then the straight line that runs nearest to what these
/// levels stand for, if its levels are nearer.
Levels fit_levels(const float* elements) {
    const auto [least, greatest] = std::minmax_element(elements, elements + 16);
    const float m = f16_to_f32(f32_to_finite_f16(*least));
    const Levels range = round_to_levels(elements, (*greatest - m) / 15.0f, m);
    float sum = 0.0f, sum_q = 0.0f, sum_qq = 0.0f, sum_qx = 0.0f;
    for (int i = 0; i < 16; ++i) {
        const auto q = static_cast<float>(range.quants[i]);
        sum += elements[i];
        sum_q += q;
        sum_qq += q * q;
        sum_qx += q * elements[i];
    }
    const float spread = 16.0f * sum_qq - sum_q * sum_q;
    if (spread == 0.0f)
        return range;
    const float slope = (16.0f * sum_qx - sum_q * sum) / spread;
    const Levels line = round_to_levels(elements, slope, (sum - slope * sum_q) / 16.0f);
    return line.error < range.error ? line : range;
}

void encode_block(const float* elements, BlockKv4& block) {
    const Levels halves[2] = {fit_levels(elements), fit_levels(elements + 16)};
    for (int half = 0; half < 2; ++half) {
        block.d[half] = halves[half].d;
        block.m[half] = halves[half].m;
    }
    for (int i = 0; i < 16; ++i)
        block.qs[i] = static_cast<uint8_t>(halves[0].quants[i] | halves[1].quants[i] << 4);
}

void decode_block(const BlockKv4& block, float* out) {
    for (int i = 0; i < 16; ++i) {
        out[i] = f16_to_f32(block.d[0]) * static_cast<float>(block.qs[i] & 15) + f16_to_f32(block.m[0]);
        out[i + 16] = f16_to_f32(block.d[1]) * static_cast<float>(block.qs[i] >> 4) + f16_to_f32(block.m[1]);
    }
}

/// `elements` is a multiple of the kind's group.
void encode_groups(KvType type, const float* row, std::byte* target, size_t elements) {
    if (type != KvType::int4)
        return encode(element_type(type), row, target, elements);
    for (size_t i = 0; i < elements; i += group_elements, target += sizeof(BlockKv4)) {
        BlockKv4 block;
        encode_block(row + i, block);
        std::memcpy(target, &block, sizeof block);
    }
}

void decode_groups(KvType type, const std::byte* source, float* row, size_t elements) {
    if (type != KvType::int4)
        return decode(element_type(type), source, row, elements);
    for (size_t i = 0; i < elements; i += group_elements, source += sizeof(BlockKv4)) {
        BlockKv4 block;
        std::memcpy(&block, source, sizeof block);
        decode_block(block, row + i);
    }
}

/// Elements in whole groups of the kind.
size_t whole_groups(KvType type, size_t elements) {
    const bool grouped = type == KvType::int8 || type == KvType::int4;
    return grouped ? elements / group_elements * group_elements : elements;
}

} // namespace

size_t row_bytes(KvType type, size_t elements) {
    const size_t groups = (elements + group_elements - 1) / group_elements;
    if (type == KvType::int4)
        return groups * sizeof(BlockKv4);
    const TensorTypeInfo& layout = info(element_type(type));
    return type == KvType::int8 ? groups * layout.block_bytes : elements * layout.block_bytes;
}

void encode_kv_row(KvType type, const float* row, std::byte* target, size_t elements) {
    const size_t whole = whole_groups(type, elements);
    encode_groups(type, row, target, whole);
    if (const size_t rest = elements - whole; rest > 0) {
        float group[group_elements];
        std::copy(row + whole, row + elements, group);
        std::fill(group + rest, std::end(group), row[elements - 1]);
        encode_groups(type, group, target + row_bytes(type, whole), group_elements);
    }
}

void decode_kv_row(KvType type, const std::byte* source, float* row, size_t elements) {
    const size_t whole = whole_groups(type, elements);
    decode_groups(type, source, row, whole);
    if (const size_t rest = elements - whole; rest > 0) {
        float group[group_elements];
        decode_groups(type, source + row_bytes(type, whole), group, group_elements);
        std::copy(group, group + rest, row + whole);
    }
}

void rotate(float* row, size_t elements) {
    const size_t piece = elements & (~elements + 1); // the lowest set bit
    const float normalise = 1.0f / std::sqrt(static_cast<float>(piece));
    for (float* begin = row; begin != row + elements; begin += piece) {
        for (size_t half = 1; half < piece; half *= 2)
            for (size_t pair = 0; pair < piece; pair += 2 * half)
                for (size_t i = pair; i < pair + half; ++i) {
                    const float a = begin[i];
                    const float b = begin[i + half];
                    begin[i] = a + b;
                    begin[i + half] = a - b;
                }
        for (size_t i = 0; i < piece; ++i)
            begin[i] *= normalise;
    }
}

} // namespace orrery::kernels
