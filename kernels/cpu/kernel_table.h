// The inner loops, one set per code path. Each set is compiled in a translation unit of its own with the
// flags of its instruction set, from the same templates; everything else in this folder is plain C++.
//
// All sets add in the same order and give the same bits.
#pragma once

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/operations.h"
#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>

namespace orrery::kernels::cpu {

/// 32 activations of one row as integers q of 15 bits, x ≈ scale · q, |q| ≤ 127 · 128, and what the offsets
/// and minima of weights need: for groups of 32 and of 16 columns.
///
/// One byte for each activation, as is common, costs a small model accuracy: in a block with one large
/// activation the other 31 are rounded to a few steps, and close decisions between tokens change.
/// q is kept as two bytes, q = 128 · coarse + fine, each of which VNNI multiplies as it is; the sum of both
/// products is exact, and its scale enters the float accumulator once.
struct ActivationBlock {
    int8_t coarse[32]; ///< from −127 to 127
    int8_t fine[32];   ///< from −64 to 63
    float scale;
    float sum;         ///< scale · Σ q: what a minimum of 1 adds
    int32_t minus_8;   ///< −8 · Σ q: what codes with an offset of 8 add too much, negated
    int32_t minus_128; ///< −128 · Σ q
    float half_sum[2]; ///< the same for each 16 columns
    int32_t half_minus_8[2];
    int32_t half_minus_128[2];
};

/// Rows of activations are quantised and stored in groups of 8, block by block, so that a tile of rows is
/// read with constant distances: block b of row r is blocks[(r / 8 · columns / 32 + b) · 8 + r % 8].
inline constexpr int row_group = 8;

/// A Norm with its handles resolved; null: no weight or no bias.
struct NormArguments {
    NormKind kind = NormKind::none;
    const float* weight = nullptr;
    const float* bias = nullptr;
    float eps = 0.0f;
    float weight_offset = 0.0f;
};

/// Where results go: out[row · stride + column] = (or +=, where `accumulate`) scale · (result + bias).
struct Output {
    float* out = nullptr;
    int64_t stride = 0;
    const float* bias = nullptr; ///< [columns], or none
    float scale = 1.0f;
    bool accumulate = false;
};

/// Rows of 8 floats that a group of queries takes.
constexpr int64_t query_rows(int64_t key_length) {
    return key_length + (key_length + 15) / 16;
}

/// The queries of one key/value head against up to 256 cached tokens. A query sees the tokens from
/// first_tokens on, before tokens; where that is none, its peak is −∞ and its sum and values are 0.
struct AttentionPart {
    /// Per 16 tokens: keys across and values along, as KvStore lays them out. Tiles that no query sees are
    /// not read. No values: a value is the first value_length elements of its key.
    const void* keys[16];
    const void* values[16];
    bool value_in_key = false;
    int key_length = 0;
    int value_length = 0;
    int queries = 0;
    /// Queries, scaled, in groups of 8: [group][query_rows(key_length)][8]. The rows past key_length hold the
    /// sums of each 16 elements, for keys with minima (int4) alone.
    const float* q = nullptr;
    const int32_t* tokens = nullptr;       ///< [queries]
    const int32_t* first_tokens = nullptr; ///< [queries]; null: 0
    float soft_cap = 0.0f;                 ///< 0: none
    const float* alibi = nullptr;          ///< slope of each query, [queries]; null: none
    const int32_t* positions = nullptr;    ///< of each query, from the part's first token on; for alibi
    float* scores = nullptr;               ///< scratch [queries rounded up to 8, 256]
    float* peak = nullptr;                 ///< out: largest score, [queries]
    float* sum = nullptr;                  ///< out: Σ exp(score − peak), [queries]
    float* out = nullptr;                  ///< out: Σ exp(score − peak) · value, [queries, value_length]
};

struct KernelTable {
    const char* name;

    /// Of one row; out may be x.
    void (*norm)(const NormArguments& norm, const float* x, float* out, int64_t columns);
    /// out = f(gate) · (up + up_offset), or f(gate) where up is null. out may be gate or up.
    void (*activate)(const Activation& activation, const float* gate, const float* up, float* out,
                     int64_t columns);
    /// out = cap · tanh(scale · x / cap), or scale · x where cap is 0. out may be x.
    void (*soft_cap)(const float* x, float scale, float cap, float* out, int64_t count);
    /// out = (or +=, where `accumulate`) scale · x. out may be x.
    void (*add)(const float* x, float scale, bool accumulate, float* out, int64_t count);
    /// Quantises a row; its block b goes to out[b · row_group].
    void (*quantise)(const float* x, ActivationBlock* out, int64_t columns);

    /// Tiles [first_tile, last_tile) of a matrix times `rows` rows of activations, the first of which is the
    /// first of a row group. `output` is that of the matrix's first row and of the first activation row.
    void (*packed[packed_format_count])(const PackedMatrix& w, int64_t first_tile, int64_t last_tile,
                                        const ActivationBlock* x, int64_t rows, const Output& output);
    /// The same for F32, F16 and BF16 rows as the file has them, `row_bytes` apart: weight rows [first,
    /// last), x is [rows, columns] with `x_stride` floats from row to row.
    void (*dense)(TensorType type, const std::byte* w, int64_t row_bytes, int64_t columns, int64_t first,
                  int64_t last, const float* x, int64_t x_stride, int64_t rows, const Output& output);

    /// Turns `heads` heads of a row by the rotation [dimensions / 2, 2] of its position.
    void (*rope_interleaved)(float* x, int64_t heads, int64_t head_stride, const float* rotation,
                             int dimensions);
    void (*rope_halves)(float* x, int64_t heads, int64_t head_stride, const float* rotation, int dimensions);

    void (*to_half)(const float* x, uint16_t* out, int64_t count);
    /// For each KvType.
    void (*attention[4])(const AttentionPart& part);
    /// Folds the part (peak, sum, out) into the state of the parts before it, [value_length] each.
    void (*combine)(float* peak, float* sum, float* out, float part_peak, float part_sum,
                    const float* part_out, int value_length);
    /// out = x / sum
    void (*divide)(const float* x, float sum, float* out, int64_t count);
};

const KernelTable& avx2_kernels();
const KernelTable& avx512_vnni_kernels();
const KernelTable& kernels_for(IsaLevel level);

} // namespace orrery::kernels::cpu
