// One head's key or value of one token, as it is kept in the cache: a "row" of key_length or value_length
// floats. One definition of the bytes, used by all back ends that keep rows whole.
//
//   f32   the floats
//   f16   binary16, rounded to nearest even
//   int8  groups of 32 elements, each a Q8_0 block: a scale and 32 quants from −127 to 127
//   int4  groups of 32 elements, each a Q4_1 block: a scale, the least value and 32 quants from 0 to 15
//
// A last group that is shorter is filled up with copies of its last element, so a row of 80 elements takes
// three groups.
//
// Some models have a few key channels that are far larger than all others (through a bias, in Qwen 2);
// with four bits they would eat the range of their groups. Keys of an int4 cache are therefore stored
// after rotate(), and so must the query be that meets them: the rotation is orthogonal, so the dot
// products stay what they were. Values are never rotated.
#pragma once

#include "kernels/backend.h"

#include <cstddef>

namespace orrery::kernels {

/// Bytes of a row of `elements` floats.
size_t row_bytes(KvType type, size_t elements);

/// Rounds `elements` floats to row_bytes(type, elements) bytes. `target` may be unaligned.
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
