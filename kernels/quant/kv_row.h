// One head's key or value of one token, as it is kept in the cache: a "row" of key_length or value_length
// floats. One definition of the bytes, used by all back ends that keep rows whole.
//
//   f32   the floats
//   f16   binary16, rounded to nearest even
//   int8  groups of 32 elements, each a Q8_0 block: a scale and 32 quants from −127 to 127
//   int4  groups of 32 elements, each a BlockKv4: 16 elements share a scale and a least value, above which
//         they lie 0 to 15 scales
//
// A last group that is shorter is filled up with copies of its last element, so a row of 80 elements takes
// three groups.
//
// What that costs a model: the mean negative log-likelihood of 4,096 tokens in one context, above that with
// f32, by SmolLM2-135M-Instruct (Q4_1; its small heads and few layers forgive little), as measured with
// `orrery-cli score`. The texts are the beginning of this project's LICENSE (2.886 nats per token with f32)
// and of technical notes (4.099):
//
//         bits per element   LICENSE     notes
//   f16         16           0.0003 %    0.0004 %
//   int8         8.5         0.0013 %    0.0009 %
//   int4         6           1.03 %      0.39 %
//
// Some models have a few key channels that are far larger than all others (through a bias, in Qwen 2);
// with four bits they would eat the range of their groups. Keys of an int4 cache are therefore stored
// after rotate(), and so must the query be that meets them: the rotation is orthogonal, so the dot
// products stay what they were. Values are never rotated.
#pragma once

#include "kernels/quant/kv_type.h"

#include <cstddef>
#include <cstdint>

namespace orrery::kernels {

/// 32 elements of an int4 row: element i = d[i / 16] · quant + m[i / 16]. The quants of elements 0 … 15 are
/// the low nibbles, those of 16 … 31 the high ones; d and m are binary16.
struct BlockKv4 {
    uint16_t d[2];
    uint16_t m[2];
    uint8_t qs[16];
};

/// Bytes of a row of `elements` floats.
size_t row_bytes(KvType type, size_t elements);

/// Rounds `elements` floats to row_bytes(type, elements) bytes. `target` may be unaligned. The sum of squared
/// errors of 16 int4 elements is at most what levels from their least to their greatest would give.
void encode_kv_row(KvType type, const float* row, std::byte* target, size_t elements);

/// The floats that those bytes stand for. `source` may be unaligned.
void decode_kv_row(KvType type, const std::byte* source, float* row, size_t elements);

/// Whether keys are rotated before they are stored, and queries before they meet them.
constexpr bool rotates_keys(KvType type) {
    return type == KvType::int4;
}

/// Turns a row in place by the normalised Walsh–Hadamard transform (Sylvester's order), in consecutive
/// pieces of the largest power of two that divides `elements`: 128 in one piece, 96 in three pieces of 32.
/// It is its own inverse and keeps lengths and dot products.
void rotate(float* row, size_t elements);

} // namespace orrery::kernels
