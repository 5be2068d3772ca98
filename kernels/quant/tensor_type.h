// Block formats of the GGUF world: how many weights a block holds, how many bytes it takes, and what
// float each weight stands for. One definition, used by every back end.
//
// Source: the GGUF specification and the block layouts of ggml; the expected values of the tests come
// from gguf-py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::kernels {

/// The values are ggml's type ids, as they stand in a GGUF file.
enum class TensorType : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    IQ1_M = 29,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
    NVFP4 = 40,
};

struct TensorTypeInfo {
    const char* name;        ///< as GGUF tools print it, such as "Q4_1"
    uint32_t block_elements; ///< weights per block
    uint32_t block_bytes;    ///< bytes per block
};

/// The layout of a type, or nullptr where the id names none that can be decoded.
const TensorTypeInfo* tensor_type_info(uint32_t id);

/// The layout of a known type.
const TensorTypeInfo& info(TensorType type);

/// All types that can be decoded, in the order of their ids.
std::span<const TensorType> all_tensor_types();

/// Bytes of a row of `elements` weights; `elements` is a multiple of the block's.
size_t row_bytes(TensorType type, size_t elements);

/// Decodes `elements` weights (a multiple of the block's) from `source` to float32.
/// `source` may be unaligned.
void decode(TensorType type, const std::byte* source, float* target, size_t elements);

/// Encodes `elements` floats (a multiple of the block's) to row_bytes(type, elements) bytes, each weight
/// rounded to the nearest quant of its block. For F32, F16, BF16, Q8_0, Q4_0 and Q4_1; throws Error for any
/// other type. A block's scale covers its largest magnitude (its range, in Q4_1), so with finite weights
/// the error of one is at most half a step, in Q4_0 one step at the end that lacks the level +8, and the
/// rounding of the scale to binary16. `target` may be unaligned.
void encode(TensorType type, const float* source, std::byte* target, size_t elements);

} // namespace orrery::kernels
