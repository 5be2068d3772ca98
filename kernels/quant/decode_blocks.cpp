// Decoders of the plain formats: a weight is scale · quant, or scale · quant + offset.
#include "kernels/quant/block_layouts.h"
#include "kernels/quant/fp4.h"
#include "kernels/quant/half.h"

namespace orrery::kernels {

void decode_block(const BlockF32& block, float* out) {
    *out = block.value;
}

void decode_block(const BlockF16& block, float* out) {
    *out = f16_to_f32(block.bits);
}

void decode_block(const BlockBF16& block, float* out) {
    *out = bf16_to_f32(block.bits);
}

void decode_block(const BlockQ4_0& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>((block.qs[i] & 15) - 8);
        out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) - 8);
    }
}

void decode_block(const BlockQ4_1& block, float* out) {
    const float d = f16_to_f32(block.d);
    const float m = f16_to_f32(block.m);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>(block.qs[i] & 15) + m;
        out[i + 16] = d * static_cast<float>(block.qs[i] >> 4) + m;
    }
}

namespace {

/// Quant i of 32 quants of five bits.
int five_bits(const uint8_t* qs, const uint8_t* qh, int i) {
    const int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    const int high = (qh[i / 8] >> (i % 8)) & 1;
    return low | high << 4;
}

} // namespace

void decode_block(const BlockQ5_0& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i)
        out[i] = d * static_cast<float>(five_bits(block.qs, block.qh, i) - 16);
}

void decode_block(const BlockQ5_1& block, float* out) {
    const float d = f16_to_f32(block.d);
    const float m = f16_to_f32(block.m);
    for (int i = 0; i < 32; ++i)
        out[i] = d * static_cast<float>(five_bits(block.qs, block.qh, i)) + m;
}

void decode_block(const BlockQ8_0& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 32; ++i)
        out[i] = d * static_cast<float>(block.qs[i]);
}

void decode_block(const BlockMXFP4& block, float* out) {
    const float d = e8m0_half_to_f32(block.e);
    for (int i = 0; i < 16; ++i) {
        out[i] = d * static_cast<float>(e2m1_doubled[block.qs[i] & 15]);
        out[i + 16] = d * static_cast<float>(e2m1_doubled[block.qs[i] >> 4]);
    }
}

void decode_block(const BlockNVFP4& block, float* out) {
    for (int part = 0; part < 4; ++part, out += 16) {
        const float d = ue4m3_half_to_f32(block.d[part]);
        for (int i = 0; i < 8; ++i) {
            const uint8_t pair = block.qs[part * 8 + i];
            out[i] = d * static_cast<float>(e2m1_doubled[pair & 15]);
            out[i + 8] = d * static_cast<float>(e2m1_doubled[pair >> 4]);
        }
    }
}

// Blocks of 256 in parts of 16 or 32 weights. Quants of two bits lie in two groups of 128 weights: 32
// bytes hold weights 0…31 of the group in bits 0-1, 32…63 in bits 2-3, and so on.

void decode_block(const BlockQ2_K& block, float* out) {
    const float d = f16_to_f32(block.d);
    const float dmin = f16_to_f32(block.dmin);
    for (int i = 0; i < 256; ++i) {
        const int part = i / 16;
        const float scale = d * static_cast<float>(block.scales[part] & 15);
        const float offset = dmin * static_cast<float>(block.scales[part] >> 4);
        const int q = (block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
        out[i] = scale * static_cast<float>(q) - offset;
    }
}

void decode_block(const BlockQ3_K& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int part = 0; part < 16; ++part) {
        // Bytes 0…7 hold the low nibbles of scales 0…7 and 8…15; bytes 8…11 two high bits each of four.
        const int low = (block.scales[part % 8] >> (part / 8 * 4)) & 15;
        const int high = (block.scales[8 + part % 4] >> (part / 4 * 2)) & 3;
        const float scale = d * static_cast<float>((low | high << 4) - 32);
        for (int i = part * 16; i < part * 16 + 16; ++i) {
            const int q = (block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
            const int high_bit = (block.hmask[i % 32] >> (i / 32)) & 1; // set: no offset of −4
            out[i] = scale * static_cast<float>(q - (high_bit ? 0 : 4));
        }
    }
}

namespace {

struct ScaleAndOffset {
    int scale;
    int offset;
};

/// Scale and offset of part 0…7 of a Q4_K or Q5_K block, six bits each, from 12 bytes: the first four
/// parts' lie in the low six bits of bytes 0…3 and 4…7; the last four parts' have their low nibbles in
/// bytes 8…11 and their two high bits on top of the first four's.
ScaleAndOffset scale_and_offset(const uint8_t* packed, int part) {
    if (part < 4)
        return {packed[part] & 63, packed[part + 4] & 63};
    const int low = part - 4;
    return {(packed[low + 8] & 15) | (packed[low] >> 6) << 4, (packed[low + 8] >> 4) | (packed[low + 4] >> 6)
                                                                                           << 4};
}

} // namespace

void decode_block(const BlockQ4_K& block, float* out) {
    const float d = f16_to_f32(block.d);
    const float dmin = f16_to_f32(block.dmin);
    for (int part = 0; part < 8; ++part, out += 32) {
        const ScaleAndOffset packed = scale_and_offset(block.scales, part);
        const float scale = d * static_cast<float>(packed.scale);
        const float offset = dmin * static_cast<float>(packed.offset);
        const uint8_t* qs = block.qs + part / 2 * 32;
        const int shift = part % 2 * 4;
        for (int i = 0; i < 32; ++i)
            out[i] = scale * static_cast<float>((qs[i] >> shift) & 15) - offset;
    }
}

void decode_block(const BlockQ5_K& block, float* out) {
    const float d = f16_to_f32(block.d);
    const float dmin = f16_to_f32(block.dmin);
    for (int part = 0; part < 8; ++part, out += 32) {
        const ScaleAndOffset packed = scale_and_offset(block.scales, part);
        const float scale = d * static_cast<float>(packed.scale);
        const float offset = dmin * static_cast<float>(packed.offset);
        const uint8_t* qs = block.qs + part / 2 * 32;
        const int shift = part % 2 * 4;
        for (int i = 0; i < 32; ++i) {
            const int q = ((qs[i] >> shift) & 15) | ((block.qh[i] >> part) & 1) << 4;
            out[i] = scale * static_cast<float>(q) - offset;
        }
    }
}

void decode_block(const BlockQ6_K& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 256; ++i) {
        const float scale = d * static_cast<float>(block.scales[i / 16]);
        const int group = i / 128;
        const int within = i % 128;
        const int low = (block.ql[group * 64 + within % 64] >> (within / 64 * 4)) & 15;
        const int high = (block.qh[group * 32 + within % 32] >> (within / 32 * 2)) & 3;
        out[i] = scale * static_cast<float>((low | high << 4) - 32);
    }
}

void decode_block(const BlockTQ2_0& block, float* out) {
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < 256; ++i) {
        const int q = (block.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
        out[i] = d * static_cast<float>(q - 1);
    }
}

void decode_block(const BlockTQ1_0& block, float* out) {
    const float d = f16_to_f32(block.d);
    // A byte is a fraction of 256 in base 3, first digit foremost: multiplied by 3ⁿ (and cut to 8 bits)
    // its digit n stands above the point, where · 3 >> 8 reads it.
    constexpr uint8_t powers[5] = {1, 3, 9, 27, 81};
    const auto digit = [&](uint8_t byte, int n) {
        const auto shifted = static_cast<uint8_t>(byte * powers[n]);
        return d * static_cast<float>((shifted * 3 >> 8) - 1);
    };
    for (int n = 0; n < 5; ++n)
        for (int i = 0; i < 32; ++i)
            *out++ = digit(block.qs[i], n);
    for (int n = 0; n < 5; ++n)
        for (int i = 32; i < 48; ++i)
            *out++ = digit(block.qs[i], n);
    for (int n = 0; n < 4; ++n)
        for (const uint8_t byte : block.qh)
            *out++ = digit(byte, n);
}

} // namespace orrery::kernels
