#include "kernels/quant/kv_row.h"

#include <algorithm>
#include <cmath>

namespace orrery::kernels {

namespace {

constexpr size_t group_elements = 32;

constexpr TensorType element_type(KvType type) {
    switch (type) {
    case KvType::f32:
        return TensorType::F32;
    case KvType::f16:
        return TensorType::F16;
    case KvType::int8:
        return TensorType::Q8_0;
    case KvType::int4:
        return TensorType::Q4_1;
    }
    return TensorType::F32;
}

} // namespace

size_t row_bytes(KvType type, size_t elements) {
    const TensorTypeInfo& layout = info(element_type(type));
    const size_t blocks = (elements + layout.block_elements - 1) / layout.block_elements;
    return blocks * layout.block_bytes;
}

void encode_kv_row(KvType type, const float* row, std::byte* target, size_t elements) {
    const TensorType blocks = element_type(type);
    const size_t rest = elements % info(blocks).block_elements;
    const size_t whole = elements - rest;
    encode(blocks, row, target, whole);
    if (rest > 0) {
        float group[group_elements];
        std::copy(row + whole, row + elements, group);
        std::fill(group + rest, std::end(group), row[elements - 1]);
        encode(blocks, group, target + row_bytes(blocks, whole), group_elements);
    }
}

void decode_kv_row(KvType type, const std::byte* source, float* row, size_t elements) {
    const TensorType blocks = element_type(type);
    const size_t rest = elements % info(blocks).block_elements;
    const size_t whole = elements - rest;
    decode(blocks, source, row, whole);
    if (rest > 0) {
        float group[group_elements];
        decode(blocks, source + row_bytes(blocks, whole), group, group_elements);
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
