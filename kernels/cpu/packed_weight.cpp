#include "kernels/cpu/packed_weight.h"

#include "kernels/error.h"
#include "kernels/quant/block_layouts.h"
#include "kernels/quant/fp4.h"
#include "kernels/quant/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace orrery::kernels::cpu {

namespace {

/// The values of IQ4_NL's and IQ4_XS's codes.
constexpr int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// One row taken apart. The pointers move along as blocks are added.
struct RowParts {
    uint8_t* codes;   ///< 32 bytes per 32 columns, or 16 with two nibbles each
    uint16_t* scales; ///< half, bfloat
    uint16_t* minima;
    int8_t* small_scales; ///< two_level
    uint8_t* small_minima;
    float* supers;
    float* minimum_supers;
};

/// 32 codes of 4 bits, as nibbles.
void put_nibbles(RowParts& row, const uint8_t* codes) {
    for (int i = 0; i < 16; ++i)
        row.codes[i] = static_cast<uint8_t>(codes[i] | codes[i + 16] << 4);
    row.codes += 16;
}

void put_bytes(RowParts& row, const uint8_t* codes, int count) {
    std::memcpy(row.codes, codes, static_cast<size_t>(count));
    row.codes += count;
}

void split(const BlockQ4_0& b, RowParts& row) {
    put_bytes(row, b.qs, 16);
    *row.scales++ = b.d;
}

void split(const BlockQ4_1& b, RowParts& row) {
    put_bytes(row, b.qs, 16);
    *row.scales++ = b.d;
    *row.minima++ = b.m;
}

void split(const BlockIQ4_NL& b, RowParts& row) {
    put_bytes(row, b.qs, 16);
    *row.scales++ = b.d;
}

void split(const BlockMXFP4& b, RowParts& row) {
    put_bytes(row, b.qs, 16);
    *row.scales++ = static_cast<uint16_t>(std::bit_cast<uint32_t>(e8m0_half_to_f32(b.e)) >> 16);
}

void split(const BlockNVFP4& b, RowParts& row) {
    // Each 16 weights are 8 bytes: low nibbles first. The scale, halved, has 4 significant bits and lies
    // between 2⁻¹⁰ and 224: a float16 holds it.
    for (int pair = 0; pair < 2; ++pair) {
        uint8_t codes[32];
        for (int part = 0; part < 2; ++part)
            for (int i = 0; i < 8; ++i) {
                const uint8_t byte = b.qs[(pair * 2 + part) * 8 + i];
                codes[part * 16 + i] = byte & 15;
                codes[part * 16 + 8 + i] = byte >> 4;
            }
        put_nibbles(row, codes);
    }
    for (const uint8_t d : b.d)
        *row.scales++ = f32_to_f16(ue4m3_half_to_f32(d));
}

/// 32 codes of five bits.
void put_five_bits(RowParts& row, const uint8_t* qs, const uint8_t* qh, int offset) {
    uint32_t high = 0;
    std::memcpy(&high, qh, 4);
    for (uint32_t i = 0; i < 16; ++i) {
        row.codes[i] =
            static_cast<uint8_t>(((qs[i] & 15u) | (high >> i & 1u) << 4) + static_cast<uint32_t>(offset));
        row.codes[i + 16] = static_cast<uint8_t>((qs[i] >> 4u | (high >> (i + 16) & 1u) << 4) +
                                                 static_cast<uint32_t>(offset));
    }
    row.codes += 32;
}

void split(const BlockQ5_0& b, RowParts& row) {
    put_five_bits(row, b.qs, b.qh, 128 - 16);
    *row.scales++ = b.d;
}

void split(const BlockQ5_1& b, RowParts& row) {
    put_five_bits(row, b.qs, b.qh, 0);
    *row.scales++ = b.d;
    *row.minima++ = b.m;
}

void split(const BlockQ8_0& b, RowParts& row) {
    for (int i = 0; i < 32; ++i)
        row.codes[i] = static_cast<uint8_t>(b.qs[i] + 128);
    row.codes += 32;
    *row.scales++ = b.d;
}

void put_supers(RowParts& row, uint16_t d, uint16_t dmin) {
    *row.supers++ = f16_to_f32(d);
    *row.minimum_supers++ = -f16_to_f32(dmin);
}

/// Code number i of 256 codes of two bits: 32 bytes hold four rounds of 32.
uint8_t two_bits(const uint8_t* qs, int i) {
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void split(const BlockQ2_K& b, RowParts& row) {
    uint8_t codes[256];
    for (int i = 0; i < 256; ++i)
        codes[i] = two_bits(b.qs, i);
    for (int i = 0; i < 256; i += 32)
        put_nibbles(row, codes + i);
    for (const uint8_t s : b.scales) {
        *row.small_scales++ = static_cast<int8_t>(s & 15);
        *row.small_minima++ = s >> 4;
    }
    put_supers(row, b.d, b.dmin);
}

void split(const BlockQ3_K& b, RowParts& row) {
    uint8_t codes[256];
    for (int i = 0; i < 256; ++i) {
        const int high = b.hmask[i % 32] >> (i / 32) & 1;
        codes[i] = static_cast<uint8_t>(two_bits(b.qs, i) + (high != 0 ? 8 : 4)); // q − 4 or q, + 8
    }
    for (int i = 0; i < 256; i += 32)
        put_nibbles(row, codes + i);
    for (int i = 0; i < 16; ++i) {
        const int low = i < 8 ? b.scales[i] & 15 : b.scales[i - 8] >> 4;
        const int high = b.scales[8 + i % 4] >> (i / 4 * 2) & 3;
        *row.small_scales++ = static_cast<int8_t>((low | high << 4) - 32);
    }
    *row.supers++ = f16_to_f32(b.d);
}

/// The 8 scales and 8 minima of six bits in Q4_K and Q5_K.
void put_six_bit_scales(RowParts& row, const uint8_t* s) {
    for (int i = 0; i < 4; ++i) {
        row.small_scales[i] = static_cast<int8_t>(s[i] & 63);
        row.small_minima[i] = s[i + 4] & 63;
        row.small_scales[i + 4] = static_cast<int8_t>((s[i + 8] & 15) | (s[i] >> 6) << 4);
        row.small_minima[i + 4] = static_cast<uint8_t>(s[i + 8] >> 4 | (s[i + 4] >> 6) << 4);
    }
    row.small_scales += 8;
    row.small_minima += 8;
}

void split(const BlockQ4_K& b, RowParts& row) {
    for (int pair = 0; pair < 4; ++pair) {
        const uint8_t* qs = b.qs + pair * 32;
        for (int i = 0; i < 16; ++i) {
            row.codes[i] = static_cast<uint8_t>((qs[i] & 15) | (qs[i + 16] & 15) << 4);
            row.codes[i + 16] = static_cast<uint8_t>(qs[i] >> 4 | (qs[i + 16] & 0xf0));
        }
        row.codes += 32;
    }
    put_six_bit_scales(row, b.scales);
    put_supers(row, b.d, b.dmin);
}

void split(const BlockQ5_K& b, RowParts& row) {
    for (int part = 0; part < 8; ++part) {
        const uint8_t* qs = b.qs + part / 2 * 32;
        for (int i = 0; i < 32; ++i)
            row.codes[i] =
                static_cast<uint8_t>((part % 2 == 0 ? qs[i] & 15 : qs[i] >> 4) | (b.qh[i] >> part & 1) << 4);
        row.codes += 32;
    }
    put_six_bit_scales(row, b.scales);
    put_supers(row, b.d, b.dmin);
}

void split(const BlockQ6_K& b, RowParts& row) {
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, part = i % 128 / 32, column = i % 32;
        const int low = b.ql[half * 64 + part % 2 * 32 + column] >> (part / 2 * 4) & 15;
        const int high = b.qh[half * 32 + column] >> (part * 2) & 3;
        *row.codes++ = static_cast<uint8_t>((low | high << 4) + (128 - 32));
    }
    std::memcpy(row.small_scales, b.scales, 16);
    row.small_scales += 16;
    *row.supers++ = f16_to_f32(b.d);
}

void split(const BlockIQ4_XS& b, RowParts& row) {
    put_bytes(row, b.qs, 128);
    for (int i = 0; i < 8; ++i) {
        const int low = b.scales_l[i / 2] >> (i % 2 * 4) & 15;
        const int high = b.scales_h >> (i * 2) & 3;
        *row.small_scales++ = static_cast<int8_t>((low | high << 4) - 32);
    }
    *row.supers++ = f16_to_f32(b.d);
}

void split(const BlockTQ2_0& b, RowParts& row) {
    for (int part = 0; part < 8; ++part) {
        uint8_t codes[32];
        for (int i = 0; i < 32; ++i)
            codes[i] = static_cast<uint8_t>(two_bits(b.qs, part * 32 + i) + 7); // q − 1, + 8
        put_nibbles(row, codes);
        *row.small_scales++ = 1;
    }
    *row.supers++ = f16_to_f32(b.d);
}

/// Formats whose integers are behind a grid: decoded to floats, then divided by their scale. A decoded
/// weight is integer · scale, rounded once, so the nearest integer is the exact one.
template <class Block>
void put_by_division(const Block& b, RowParts& row, float super, const int8_t* scales, int group) {
    float weights[256];
    decode_block(b, weights);
    for (int g = 0; g < 256 / group; ++g) {
        const float scale = super * static_cast<float>(scales[g]);
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (int i = 0; i < group; ++i) {
            const float q = std::nearbyint(weights[g * group + i] * inverse);
            *row.codes++ = static_cast<uint8_t>(std::clamp(q, -127.0f, 127.0f) + 128.0f);
        }
        *row.small_scales++ = scales[g];
    }
    *row.supers++ = super;
}

void split(const BlockTQ1_0& b, RowParts& row) {
    float weights[256];
    decode_block(b, weights);
    const float d = f16_to_f32(b.d);
    for (int part = 0; part < 8; ++part) {
        uint8_t codes[32];
        for (int i = 0; i < 32; ++i) {
            const float w = weights[part * 32 + i];
            codes[i] = w == 0.0f ? 8 : (w > 0.0f) == (d > 0.0f) ? 9 : 7;
        }
        put_nibbles(row, codes);
        *row.small_scales++ = 1;
    }
    *row.supers++ = d;
}

void split(const BlockIQ2_XXS& b, RowParts& row) {
    int8_t scales[8];
    for (int i = 0; i < 8; ++i)
        scales[i] = static_cast<int8_t>((b.qs[i * 8 + 7] >> 4) * 2 + 1);
    put_by_division(b, row, f16_to_f32(b.d) * 0.125f, scales, 32); // d · (½ + s) / 4
}

template <class Block>
void split_iq2_16(const Block& b, RowParts& row) {
    int8_t scales[16];
    for (int i = 0; i < 16; ++i)
        scales[i] = static_cast<int8_t>((b.scales[i / 2] >> (i % 2 * 4) & 15) * 2 + 1);
    put_by_division(b, row, f16_to_f32(b.d) * 0.125f, scales, 16);
}

void split(const BlockIQ2_XS& b, RowParts& row) {
    split_iq2_16(b, row);
}

void split(const BlockIQ2_S& b, RowParts& row) {
    split_iq2_16(b, row);
}

void split(const BlockIQ3_XXS& b, RowParts& row) {
    int8_t scales[8];
    for (int i = 0; i < 8; ++i)
        scales[i] = static_cast<int8_t>((b.signs_and_scales[i * 4 + 3] >> 4) * 2 + 1);
    put_by_division(b, row, f16_to_f32(b.d) * 0.25f, scales, 32); // d · (½ + s) / 2
}

void split(const BlockIQ3_S& b, RowParts& row) {
    int8_t scales[8];
    for (int i = 0; i < 8; ++i)
        scales[i] = static_cast<int8_t>((b.scales[i / 2] >> (i % 2 * 4) & 15) * 2 + 1);
    put_by_division(b, row, f16_to_f32(b.d), scales, 32);
}

void split(const BlockIQ1_S& b, RowParts& row) {
    // Weights are d · (2s + 1) · (grid ± ⅛): eighths make them integers.
    int8_t scales[8];
    for (int i = 0; i < 8; ++i)
        scales[i] = static_cast<int8_t>((b.qh[i] >> 12 & 7) * 2 + 1);
    put_by_division(b, row, f16_to_f32(b.d) * 0.125f, scales, 32);
}

void split(const BlockIQ1_M& b, RowParts& row) {
    const uint32_t d = b.scales[0] >> 12u | (b.scales[1] >> 8u & 0x00f0u) | (b.scales[2] >> 4u & 0x0f00u) |
                       (b.scales[3] & 0xf000u);
    int8_t scales[16];
    for (int i = 0; i < 16; ++i)
        scales[i] = static_cast<int8_t>((b.scales[i / 4] >> (i % 4 * 3) & 7) * 2 + 1);
    put_by_division(b, row, f16_to_f32(static_cast<uint16_t>(d)) * 0.125f, scales, 16);
}

[[noreturn]] void refuse(TensorType type) {
    throw Error("Weights of the type " + std::to_string(static_cast<uint32_t>(type)) + " cannot be packed.");
}

/// Calls `body` with an empty value of the type's block.
template <class Body>
void with_block(TensorType type, const Body& body) {
    switch (type) {
    case TensorType::Q4_0:
        return body(BlockQ4_0{});
    case TensorType::Q4_1:
        return body(BlockQ4_1{});
    case TensorType::Q5_0:
        return body(BlockQ5_0{});
    case TensorType::Q5_1:
        return body(BlockQ5_1{});
    case TensorType::Q8_0:
        return body(BlockQ8_0{});
    case TensorType::Q2_K:
        return body(BlockQ2_K{});
    case TensorType::Q3_K:
        return body(BlockQ3_K{});
    case TensorType::Q4_K:
        return body(BlockQ4_K{});
    case TensorType::Q5_K:
        return body(BlockQ5_K{});
    case TensorType::Q6_K:
        return body(BlockQ6_K{});
    case TensorType::IQ2_XXS:
        return body(BlockIQ2_XXS{});
    case TensorType::IQ2_XS:
        return body(BlockIQ2_XS{});
    case TensorType::IQ3_XXS:
        return body(BlockIQ3_XXS{});
    case TensorType::IQ1_S:
        return body(BlockIQ1_S{});
    case TensorType::IQ4_NL:
        return body(BlockIQ4_NL{});
    case TensorType::IQ3_S:
        return body(BlockIQ3_S{});
    case TensorType::IQ2_S:
        return body(BlockIQ2_S{});
    case TensorType::IQ4_XS:
        return body(BlockIQ4_XS{});
    case TensorType::IQ1_M:
        return body(BlockIQ1_M{});
    case TensorType::TQ1_0:
        return body(BlockTQ1_0{});
    case TensorType::TQ2_0:
        return body(BlockTQ2_0{});
    case TensorType::MXFP4:
        return body(BlockMXFP4{});
    case TensorType::NVFP4:
        return body(BlockNVFP4{});
    case TensorType::F32:
    case TensorType::F16:
    case TensorType::BF16:
        break;
    }
    refuse(type);
}

PackedFormat packed_format(TensorType type) {
    switch (type) {
    case TensorType::Q4_0:
        return PackedFormat::q4_0;
    case TensorType::Q4_1:
        return PackedFormat::q4_1;
    case TensorType::IQ4_NL:
        return PackedFormat::iq4_nl;
    case TensorType::IQ4_XS:
        return PackedFormat::iq4_xs;
    case TensorType::MXFP4:
        return PackedFormat::mxfp4;
    case TensorType::NVFP4:
        return PackedFormat::nvfp4;
    case TensorType::Q4_K:
        return PackedFormat::q4_k;
    case TensorType::Q2_K:
        return PackedFormat::q2_k;
    case TensorType::Q3_K:
        return PackedFormat::q3_k;
    case TensorType::TQ1_0:
    case TensorType::TQ2_0:
        return PackedFormat::ternary;
    case TensorType::Q5_1:
        return PackedFormat::q5_1;
    case TensorType::Q5_K:
        return PackedFormat::q5_k;
    case TensorType::Q6_K:
    case TensorType::IQ1_M:
    case TensorType::IQ2_XS:
    case TensorType::IQ2_S:
        return PackedFormat::q6_k;
    case TensorType::IQ1_S:
    case TensorType::IQ2_XXS:
    case TensorType::IQ3_XXS:
    case TensorType::IQ3_S:
        return PackedFormat::iq_32;
    case TensorType::Q8_0:
    case TensorType::Q5_0:
        return PackedFormat::q8_0;
    case TensorType::F32:
    case TensorType::F16:
    case TensorType::BF16:
        break;
    }
    refuse(type);
}

/// Buffers for one row's parts.
struct RowBuffers {
    std::vector<uint8_t> codes;
    std::vector<uint16_t> scales, minima;
    std::vector<int8_t> small_scales;
    std::vector<uint8_t> small_minima;
    std::vector<float> supers, minimum_supers;

    explicit RowBuffers(int64_t columns)
        : codes(static_cast<size_t>(columns)),
          scales(static_cast<size_t>(columns / 16)),
          minima(scales.size()),
          small_scales(scales.size()),
          small_minima(scales.size()),
          supers(static_cast<size_t>(columns / 256 + 1)),
          minimum_supers(supers.size()) {}

    RowParts parts() {
        return {codes.data(),        scales.data(), minima.data(),        small_scales.data(),
                small_minima.data(), supers.data(), minimum_supers.data()};
    }
};

/// Puts `count` values into every 16th place.
template <class T>
void spread(uint8_t* tile, int64_t offset, int row, const std::vector<T>& values, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(tile + offset + (i * tile_rows + row) * static_cast<int64_t>(sizeof(T)),
                    &values[static_cast<size_t>(i)], sizeof(T));
}

void put_row(uint8_t* tile, const PackedMatrix& m, int row, const RowBuffers& buffers) {
    const FormatTraits traits = format_traits[static_cast<size_t>(m.format)];
    const int64_t words = m.columns / (is_nibble(traits.code) ? 8 : 4);
    for (int64_t w = 0; w < words; ++w)
        std::memcpy(tile + (w * tile_rows + row) * 4, &buffers.codes[static_cast<size_t>(w * 4)], 4);
    const int64_t groups = m.columns / traits.group;
    if (traits.scale == ScaleClass::two_level) {
        spread(tile, m.layout.scales, row, buffers.small_scales, groups);
        spread(tile, m.layout.supers, row, buffers.supers, m.columns / 256);
        if (has_minimum(traits.code)) {
            spread(tile, m.layout.minima, row, buffers.small_minima, groups);
            spread(tile, m.layout.minimum_supers, row, buffers.minimum_supers, m.columns / 256);
        }
    } else {
        spread(tile, m.layout.scales, row, buffers.scales, groups);
        if (has_minimum(traits.code))
            spread(tile, m.layout.minima, row, buffers.minima, groups);
    }
}

template <class T>
T load(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

} // namespace

bool is_packed_type(TensorType type) {
    return type != TensorType::F32 && type != TensorType::F16 && type != TensorType::BF16;
}

int64_t packed_bytes(TensorType type, int64_t rows, int64_t columns) {
    const FormatTraits& traits = format_traits[static_cast<size_t>(packed_format(type))];
    return (rows + tile_rows - 1) / tile_rows * tile_layout(traits, columns).bytes;
}

PackedMatrix make_packed(TensorType type, int64_t rows, int64_t columns) {
    PackedMatrix m;
    m.format = packed_format(type);
    m.rows = rows;
    m.columns = columns;
    m.layout = tile_layout(format_traits[static_cast<size_t>(m.format)], columns);
    const bool fp4 = type == TensorType::MXFP4 || type == TensorType::NVFP4;
    for (int i = 0; i < 16; ++i)
        m.table[i] = static_cast<uint8_t>((fp4 ? e2m1_doubled[i] : iq4_values[i]) + 128);
    m.memory = allocate_memory(m.bytes());
    return m;
}

void pack_tiles(PackedMatrix& m, TensorType type, const std::byte* rows_bytes, size_t row_stride_bytes,
                int64_t first_tile, int64_t last_tile) {
    RowBuffers buffers(m.columns);
    with_block(type, [&](auto block) {
        const int64_t blocks = m.columns / block.elements;
        for (int64_t t = first_tile; t < last_tile; ++t) {
            uint8_t* tile = reinterpret_cast<uint8_t*>(m.memory.get()) + t * m.layout.bytes;
            std::memset(tile, 0, static_cast<size_t>(m.layout.bytes));
            const int64_t first_row = t * tile_rows;
            const int64_t rows = std::min<int64_t>(tile_rows, m.rows - first_row);
            for (int64_t r = 0; r < rows; ++r) {
                const std::byte* source = rows_bytes + static_cast<size_t>(first_row + r) * row_stride_bytes;
                RowParts parts = buffers.parts();
                for (int64_t b = 0; b < blocks; ++b, source += sizeof block) {
                    std::memcpy(&block, source, sizeof block);
                    split(block, parts);
                }
                put_row(tile, m, static_cast<int>(r), buffers);
            }
        }
    });
}

void unpack_row(const PackedMatrix& m, int64_t row, float* target) {
    const FormatTraits traits = format_traits[static_cast<size_t>(m.format)];
    const uint8_t* tile = m.tile(row / tile_rows);
    const int64_t lane = row % tile_rows;
    for (int64_t k = 0; k < m.columns; ++k) {
        const int64_t block = k / 32, in = k % 32;
        int q = 0;
        if (is_nibble(traits.code)) {
            const uint8_t byte = tile[(block * 4 + in % 16 / 4) * 64 + lane * 4 + in % 4];
            q = in < 16 ? byte & 15 : byte >> 4;
        } else {
            q = tile[(block * 8 + in / 4) * 64 + lane * 4 + in % 4];
        }
        switch (traits.code) {
        case CodeClass::nibble_offset8:
            q -= 8;
            break;
        case CodeClass::nibble_table:
            q = m.table[q] - 128;
            break;
        case CodeClass::byte_offset128:
            q -= 128;
            break;
        case CodeClass::nibble_minimum:
        case CodeClass::byte_minimum:
            break;
        }
        const int64_t at = k / traits.group * tile_rows + lane;
        const int64_t super_at = (k / 256 * tile_rows + lane) * 4;
        float scale = 0.0f, minimum = 0.0f;
        switch (traits.scale) {
        case ScaleClass::half:
            scale = f16_to_f32(load<uint16_t>(tile + m.layout.scales + at * 2));
            if (has_minimum(traits.code))
                minimum = f16_to_f32(load<uint16_t>(tile + m.layout.minima + at * 2));
            break;
        case ScaleClass::bfloat:
            scale = bf16_to_f32(load<uint16_t>(tile + m.layout.scales + at * 2));
            break;
        case ScaleClass::two_level:
            scale = load<float>(tile + m.layout.supers + super_at) *
                    static_cast<float>(static_cast<int8_t>(tile[m.layout.scales + at]));
            if (has_minimum(traits.code))
                minimum = load<float>(tile + m.layout.minimum_supers + super_at) *
                          static_cast<float>(tile[m.layout.minima + at]);
            break;
        }
        target[k] = scale * static_cast<float>(q) + minimum;
    }
}

} // namespace orrery::kernels::cpu
