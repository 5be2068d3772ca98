// What the tables of operation_cases.h are made of: an operation's options, its inputs and its right results.
// Matrices are row-major; an empty vector stands for a buffer or a view that is not given.
#pragma once

#include "kernels/operations.h"

#include <vector>

namespace orrery::test::cases {

using namespace kernels;
using Floats = std::vector<float>;

struct NormCase {
    const char* name;
    NormKind kind;
    int64_t rows, columns;
    Floats x, weight = {};
    float weight_offset = 0.0f;
    Floats bias = {};
    int groups = 1;
    bool weight_shared = true;
    Floats add = {};
    float add_scale = 1.0f;
    Floats x_after = {}; ///< where `add` is given
    Floats gate = {};
    GateOrder gate_order = GateOrder::after;
    float scale = 1.0f;
    bool accumulate = false;
    Floats before = {}; ///< what out holds beforehand
    Floats out = {};
};

struct LinearCase {
    const char* name;
    int64_t rows, columns;
    int groups = 1;
    Floats x, weight;
    NormKind norm = NormKind::none;
    Floats norm_weight = {}, norm_bias = {};
    Activation activation = {};
    Floats bias = {};
    float scale = 1.0f;
    bool accumulate = false;
    Floats before = {};
    Floats out = {};
};

struct GateCase {
    const char* name;
    Activation activation;
    int64_t columns, gate_columns; ///< of three rows
    Floats gate, x, out;
};

struct RopeCase {
    const char* name;
    int heads, kv_heads, key_length, value_length;
    int dimensions, first;
    RopeStyle style;
    bool after; ///< the norms
    bool value_in_key;
    Floats q, k = {}, v = {}; ///< of three tokens
    NormKind norm = NormKind::none;
    Floats q_weight = {}, k_weight = {};
    Floats rope = {};
    Floats q_out = {};
    Floats query_scale = {};
    Floats k_out = {};
    bool v_norm = false; ///< RMS without weights
    Floats v_out = {};
};

struct AttentionCase {
    const char* name;
    int tokens, heads, kv_heads, key_length, value_length;
    float scale, soft_cap;
    int window;
    bool chunked;
    bool value_in_key;
    Floats q, k, v = {};
    Floats alibi = {}, sinks = {};
    Floats out;
};

struct RouteCase {
    const char* name;
    int64_t experts;
    int top_k;
    RouterScore score;
    int groups, top_groups;
    GroupScore group_score;
    bool normalize;
    float sum_floor, scale;
    Floats logits, bias = {};
    std::vector<int32_t> chosen;
    Floats weights;
};

struct ExpertCase {
    const char* name;
    int64_t rows, columns, height;
    int experts, top_k;
    bool per_slot;
    Floats x, weight;
    std::vector<int32_t> chosen;
    Activation activation = {};
    Floats input_scale = {}, bias = {};
    Floats out;
};

struct ConvolveCase {
    const char* name;
    int tokens, channels, kernel;
    Floats x, weight;
    ActivationKind activation;
    Floats bias = {};
    Floats out;
};

struct SsmCase {
    const char* name;
    int tokens, heads, groups, head_length, state_length;
    float dt_min, dt_max;
    Floats x, b, c, dt, a, d, dt_bias, out;
};

struct DeltaCase {
    const char* name;
    int tokens, heads, key_heads, key_length, value_length;
    Floats q, k, v, decay, beta, a, dt_bias, out;
};

} // namespace orrery::test::cases
