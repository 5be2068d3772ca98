// The arithmetic of a forward pass, one row or one head at a time, as a textbook would write it: a function
// for each formula of kernels/operations.h. Sums are taken in double and in an order that depends on their
// length alone, so a row's result never depends on other rows.
#pragma once

#include "kernels/operations.h"

#include <span>

namespace orrery::kernels::reference {

/// Σ a[i] · b[i], both of the same length.
double dot(std::span<const float> a, std::span<const float> b);

// ---------------------------------------------------------------- norms and activations

/// A Norm and what its buffers hold.
struct NormValues {
    NormKind kind = NormKind::none;
    std::span<const float> weight = {}; ///< as long as the row; empty: 1
    std::span<const float> bias = {};   ///< as long as the row; empty: 0
    float eps = 1e-5f;
    float weight_offset = 0.0f;
};

/// NormKind's formula over one row. `out` may be `x`.
void norm(std::span<const float> x, const NormValues& norm, std::span<float> out);

/// ActivationKind's formula.
double activate(ActivationKind kind, double z, double alpha = 1.0);

/// Activation's formula over one row: x is as long as `out`, or twice as long where it is gated.
void activate(std::span<const float> x, const Activation& activation, std::span<float> out);

/// cap · tanh(z / cap), or z where cap is 0 (Bello et al. 2016).
double soft_cap(double z, double cap);

// ---------------------------------------------------------------- attention

/// Rotates the pairs of `head` by the angles whose cosines and sines are given, [pairs, 2] (Su et al. 2021):
/// (a, b) ← (a·cos − b·sin, a·sin + b·cos). Only the first 2·pairs elements take part.
void apply_rope(std::span<float> head, std::span<const float> cosines_and_sines, RopeStyle style);

/// How scores are made of the products of one query head and its keys.
struct ScoreOptions {
    float scale = 1.0f;
    float soft_cap = 0.0f;       ///< 0: none
    float alibi = 0.0f;          ///< added to a score for each token nearer to the query
    const float* sink = nullptr; ///< the score of a token without a value, or none
};

/// One query over the tokens it may see, its own last: AttentionOp's formula. keys is [tokens, key_length],
/// values [tokens, value_length]; tokens = keys.size() / query.size() > 0.
void attend(std::span<const float> query, std::span<const float> keys, std::span<const float> values,
            const ScoreOptions& options, std::span<float> out);

// ---------------------------------------------------------------- experts

/// RouteOp's formula over one row: logits and bias (empty: none) are [experts], the results [top_k].
void route(std::span<const float> logits, std::span<const float> bias, const RouteOp& op,
           std::span<int32_t> experts, std::span<float> weights);

// ---------------------------------------------------------------- recurrences

/// ConvolveOp's formula for one token: x and out are [channels], weight [channels, kernel], bias [channels]
/// or empty. `inputs`, the last [kernel − 1, channels], takes up x.
void convolve(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
              ActivationKind activation, std::span<float> inputs, std::span<float> out);

/// What one head of SsmScanOp has beside its vectors.
struct SsmStep {
    float dt = 0.0f;
    float a = 0.0f;
    float d = 0.0f;
    float dt_bias = 0.0f;
    float dt_min = 0.0f;
    float dt_max = 3.4e38f;
};

/// SsmScanOp's formula for one token and one head: x and out are [head length], b and c [state length], the
/// state [head length, state length].
void ssm_step(std::span<const float> x, std::span<const float> b, std::span<const float> c,
              const SsmStep& step, std::span<float> state, std::span<float> out);

/// What one head of DeltaRuleOp has beside its vectors.
struct DeltaStep {
    float decay = 0.0f;
    float beta = 0.0f;
    float a = 0.0f;
    float dt_bias = 0.0f;
};

/// DeltaRuleOp's formula for one token and one value head: q and k are [key length], v and out
/// [value length], the state [key length, value length].
void delta_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                const DeltaStep& step, std::span<float> state, std::span<float> out);

} // namespace orrery::kernels::reference
