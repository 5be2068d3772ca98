// The blocks of ggml's formats as they lie in a file, byte for byte, little endian.
//
// Names follow ggml: `d` is a block's scale, `dmin` and `m` its offset, both binary16 bits (see half.h);
// `qs` are the quants, low bits; `qh` their high bits; `scales` the scales of the parts of a block of 256.
// What the bits mean is said by the decoders (decode_blocks.cpp, decode_iq_blocks.cpp).
//
// A block in a file may be unaligned: copy it into one of these structs, do not cast.
#pragma once

#include "kernels/quant/tensor_type.h"

#include <cstdint>

namespace orrery::kernels {

struct BlockF32 {
    static constexpr TensorType type = TensorType::F32;
    static constexpr int elements = 1;
    float value;
};

struct BlockF16 {
    static constexpr TensorType type = TensorType::F16;
    static constexpr int elements = 1;
    uint16_t bits;
};

struct BlockBF16 {
    static constexpr TensorType type = TensorType::BF16;
    static constexpr int elements = 1;
    uint16_t bits;
};

// 32 weights. Nibble i of the first half of the block is the low nibble of byte i, of the second half the
// high nibble of the same byte.

struct BlockQ4_0 {
    static constexpr TensorType type = TensorType::Q4_0;
    static constexpr int elements = 32;
    uint16_t d;
    uint8_t qs[16];
};

struct BlockQ4_1 {
    static constexpr TensorType type = TensorType::Q4_1;
    static constexpr int elements = 32;
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
};

struct BlockQ5_0 {
    static constexpr TensorType type = TensorType::Q5_0;
    static constexpr int elements = 32;
    uint16_t d;
    uint8_t qh[4]; ///< bit i: the fifth bit of weight i
    uint8_t qs[16];
};

struct BlockQ5_1 {
    static constexpr TensorType type = TensorType::Q5_1;
    static constexpr int elements = 32;
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
};

struct BlockQ8_0 {
    static constexpr TensorType type = TensorType::Q8_0;
    static constexpr int elements = 32;
    uint16_t d;
    int8_t qs[32];
};

struct BlockIQ4_NL {
    static constexpr TensorType type = TensorType::IQ4_NL;
    static constexpr int elements = 32;
    uint16_t d;
    uint8_t qs[16];
};

struct BlockMXFP4 {
    static constexpr TensorType type = TensorType::MXFP4;
    static constexpr int elements = 32;
    uint8_t e; ///< shared exponent, E8M0
    uint8_t qs[16];
};

struct BlockNVFP4 {
    static constexpr TensorType type = TensorType::NVFP4;
    static constexpr int elements = 64;
    uint8_t d[4]; ///< one unsigned E4M3 scale for each 16 weights
    uint8_t qs[32];
};

// 256 weights ("super-blocks").

struct BlockQ2_K {
    static constexpr TensorType type = TensorType::Q2_K;
    static constexpr int elements = 256;
    uint8_t scales[16]; ///< per 16 weights: scale in the low nibble, offset in the high one
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
};

struct BlockQ3_K {
    static constexpr TensorType type = TensorType::Q3_K;
    static constexpr int elements = 256;
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12]; ///< 16 scales of 6 bits
    uint16_t d;
};

struct BlockQ4_K {
    static constexpr TensorType type = TensorType::Q4_K;
    static constexpr int elements = 256;
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12]; ///< 8 scales and 8 offsets of 6 bits
    uint8_t qs[128];
};

struct BlockQ5_K {
    static constexpr TensorType type = TensorType::Q5_K;
    static constexpr int elements = 256;
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12]; ///< as in Q4_K
    uint8_t qh[32];
    uint8_t qs[128];
};

struct BlockQ6_K {
    static constexpr TensorType type = TensorType::Q6_K;
    static constexpr int elements = 256;
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};

struct BlockIQ2_XXS {
    static constexpr TensorType type = TensorType::IQ2_XXS;
    static constexpr int elements = 256;
    uint16_t d;
    uint8_t qs[64]; ///< per 32 weights: 4 grid indices, then 28 bits of signs and 4 of scale
};

struct BlockIQ2_XS {
    static constexpr TensorType type = TensorType::IQ2_XS;
    static constexpr int elements = 256;
    uint16_t d;
    uint16_t qs[32]; ///< per 8 weights: 9 bits of grid index, 7 of signs
    uint8_t scales[8];
};

struct BlockIQ2_S {
    static constexpr TensorType type = TensorType::IQ2_S;
    static constexpr int elements = 256;
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
};

struct BlockIQ3_XXS {
    static constexpr TensorType type = TensorType::IQ3_XXS;
    static constexpr int elements = 256;
    uint16_t d;
    uint8_t qs[64];
    uint8_t signs_and_scales[32]; ///< per 32 weights, 32 bits: 4 · 7 of signs, 4 of scale
};

struct BlockIQ3_S {
    static constexpr TensorType type = TensorType::IQ3_S;
    static constexpr int elements = 256;
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
};

struct BlockIQ1_S {
    static constexpr TensorType type = TensorType::IQ1_S;
    static constexpr int elements = 256;
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8]; ///< per 32 weights: 4 · 3 high bits of the indices, 3 of scale, 1 of shift
};

struct BlockIQ1_M {
    static constexpr TensorType type = TensorType::IQ1_M;
    static constexpr int elements = 256;
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4]; ///< 4 · 3 bits of scale each; the top nibbles together are `d`
};

struct BlockIQ4_XS {
    static constexpr TensorType type = TensorType::IQ4_XS;
    static constexpr int elements = 256;
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
};

struct BlockTQ1_0 {
    static constexpr TensorType type = TensorType::TQ1_0;
    static constexpr int elements = 256;
    uint8_t qs[48]; ///< five ternary digits a byte
    uint8_t qh[4];  ///< four ternary digits a byte
    uint16_t d;
};

struct BlockTQ2_0 {
    static constexpr TensorType type = TensorType::TQ2_0;
    static constexpr int elements = 256;
    uint8_t qs[64];
    uint16_t d;
};

/// Each writes the `elements` floats of one block.
void decode_block(const BlockF32& block, float* out);
void decode_block(const BlockF16& block, float* out);
void decode_block(const BlockBF16& block, float* out);
void decode_block(const BlockQ4_0& block, float* out);
void decode_block(const BlockQ4_1& block, float* out);
void decode_block(const BlockQ5_0& block, float* out);
void decode_block(const BlockQ5_1& block, float* out);
void decode_block(const BlockQ8_0& block, float* out);
void decode_block(const BlockIQ4_NL& block, float* out);
void decode_block(const BlockMXFP4& block, float* out);
void decode_block(const BlockNVFP4& block, float* out);
void decode_block(const BlockQ2_K& block, float* out);
void decode_block(const BlockQ3_K& block, float* out);
void decode_block(const BlockQ4_K& block, float* out);
void decode_block(const BlockQ5_K& block, float* out);
void decode_block(const BlockQ6_K& block, float* out);
void decode_block(const BlockIQ2_XXS& block, float* out);
void decode_block(const BlockIQ2_XS& block, float* out);
void decode_block(const BlockIQ2_S& block, float* out);
void decode_block(const BlockIQ3_XXS& block, float* out);
void decode_block(const BlockIQ3_S& block, float* out);
void decode_block(const BlockIQ1_S& block, float* out);
void decode_block(const BlockIQ1_M& block, float* out);
void decode_block(const BlockIQ4_XS& block, float* out);
void decode_block(const BlockTQ1_0& block, float* out);
void decode_block(const BlockTQ2_0& block, float* out);

} // namespace orrery::kernels
