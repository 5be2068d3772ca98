// The operations of a forward pass. Each is documented by its shapes, its formula and its source; the
// reference back end computes the formula in plain loops, every other back end is held against it.
//
// T is the number of rows of the batch. A view that an operation writes may overlap one that it reads only
// where both are the same view, and only where the operation says so.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <span>

namespace orrery::kernels {

// ---------------------------------------------------------------- the batch

/// One sequence's share of a batch: `rows` consecutive rows from `first_row` on, whose tokens stand at
/// positions first_position, first_position + 1, … of the sequence.
struct Span {
    int32_t first_row = 0;
    int32_t rows = 0;
    int32_t first_position = 0;
    /// Its recurrent state, read and written. A span that begins at position 0 begins with zeros, whatever
    /// the slot holds. −1: the model has none.
    int32_t state_slot = -1;
};

/// Where keys and values of the batch's tokens lie. Caches whose blocks are given out together (all layers
/// that keep all tokens, say) share one layout; layers with a sliding window may have another.
struct BlockLayout {
    /// Where each row's key and value go: block · block_size + offset, [T]. −1: nowhere (a padding row).
    std::span<const int32_t> kv_slots;
    /// For each span, where its block table begins in block_tables: the token at position p lies in block
    /// block_tables[table_offsets[span] + p / block_size].
    std::span<const int32_t> table_offsets;
    std::span<const int32_t> block_tables;
};

/// After row `row` has been computed, its span's recurrent state is copied to `slot`.
struct StateSnapshot {
    int32_t row = 0;
    int32_t slot = 0;
};

/// How one forward pass is laid out. The arrays are copied by Backend::begin(). Rows that belong to no span
/// are padding: they hold valid ids and positions, are computed like others, and touch no cache.
struct ForwardBatch {
    std::span<const int32_t> ids;         ///< token of each row, [T]
    std::span<const int32_t> positions;   ///< position of each row in its sequence, [T]
    std::span<const Span> spans;          ///< the sequences, in the order of their rows
    std::span<const BlockLayout> layouts; ///< operations name one by its index
    /// Rows whose logits are wanted, ascending; any number of a span's rows (drafts are verified so).
    std::span<const int32_t> output_rows;
    std::span<const StateSnapshot> snapshots; ///< in the order of their rows
};

/// out[r, :] = table[ids[r], :] · scale + positions[positions[r] + position_offset, :]
/// out is [T, table columns].
struct EmbedOp {
    Weight table;
    View out;
    float scale = 1.0f;
    Weight positions = {};   ///< learned position embeddings, or none
    int position_offset = 0; ///< some models begin their table of positions later
};

// ---------------------------------------------------------------- norms, products, element by element

enum class NormKind : uint8_t {
    none,  ///< x
    rms,   ///< x / √(mean(x²) + eps) · weight + bias          (Zhang & Sennrich 2019)
    layer, ///< (x − mean(x)) / √(var(x) + eps) · weight + bias (Ba et al. 2016)
};

struct Norm {
    NormKind kind = NormKind::none;
    Buffer weight = {}; ///< float32, one for each normed element; none: 1
    Buffer bias = {};   ///< float32, one for each normed element; none: 0
    float eps = 1e-5f;
    float weight_offset = 0.0f; ///< added to each weight: 1 where files keep weight − 1 (Gemma)
};

enum class ActivationKind : uint8_t {
    none,      ///< z
    silu,      ///< z · σ(alpha · z)                       (Elfwing et al. 2017)
    gelu,      ///< z · Φ(z), by the error function        (Hendrycks & Gimpel 2016)
    gelu_tanh, ///< ½ z (1 + tanh(√(2/π) (z + 0.044715 z³)))
    relu2,     ///< max(z, 0)²                             (So et al. 2021)
    sigmoid,   ///< σ(z)
};

struct Activation {
    ActivationKind kind = ActivationKind::none;
    /// x = [gate | up], two halves of equal width: f(gate) · (up + up_offset) (Shazeer 2020). With `limit` >
    /// 0 gate is first cut to at most limit, and up to −limit … limit (gpt-oss).
    bool gated = false;
    float alpha = 1.0f;
    float limit = 0.0f;
    float up_offset = 0.0f;
};

enum class GateOrder : uint8_t {
    before, ///< norm(x · silu(gate))
    after,  ///< norm(x) · silu(gate)
};

/// x ← x + add_scale · add, where `add` is given;
/// out = (or +=, where `accumulate`) scale · norm(x), with a gate as GateOrder says.
/// The columns are `groups` pieces of equal width, each normed by itself. x, add, gate and out are
/// [rows, columns]; out may be x where it does not accumulate.
struct NormOp {
    View x;
    View out;
    Norm norm;
    int groups = 1;
    /// The norm's weight and bias are [columns / groups], the same for all groups (heads); else [columns].
    bool weight_shared = true;
    View add = {};
    float add_scale = 1.0f;
    float scale = 1.0f;
    bool accumulate = false;
    View gate = {};
    GateOrder gate_order = GateOrder::after;
};

/// out = (or +=, where `accumulate`) scale · (prologue(x) · weightᵀ + bias)
/// x is [rows, columns] ([rows, 2 · columns] for a gated activation), out is [rows, weight rows].
///
/// With `groups` > 1 the weight is that many matrices of equal height, one under the other, and row r of x is
/// multiplied by matrix r mod groups: x is [rows, columns], out [rows, weight rows / groups]. (Seen per
/// head: View::split. Latent attention projects each head by a matrix of its own.)
struct LinearOp {
    View x;
    Weight weight;
    View out;
    Norm norm = {};             ///< prologue: at most one of norm and activation
    Activation activation = {}; ///< prologue
    Buffer bias = {};           ///< float32 [weight rows], or none
    float scale = 1.0f;
    bool accumulate = false;
    int groups = 1;
};

/// out = f(gate) · x, element by element. gate is as wide as x, or [rows, 1]. out may be x or gate.
struct GateOp {
    View gate;
    View x;
    View out;
    Activation activation; ///< not gated: the kind, and alpha for silu
};

/// out = (or +=, where `accumulate`) scale · x. Both are [rows, columns]. An all-reduce may come between a
/// product and this addition.
struct AddOp {
    View x;
    View out;
    float scale = 1.0f;
    bool accumulate = true;
};

/// x ← cap · tanh(scale · x / cap), or scale · x where cap is 0 (Bello et al. 2016; Gemma 2).
struct SoftCapOp {
    View x;
    float scale = 1.0f;
    float cap = 0.0f;
};

/// out[i, :] = x[output_rows[i], :]. x is [T, columns], out [outputs, columns], another buffer.
struct GatherOp {
    View x;
    View out;
};

// ---------------------------------------------------------------- attention

enum class RopeStyle : uint8_t {
    interleaved, ///< pairs (x0, x1), (x2, x3), …: "normal" in ggml
    halves,      ///< pairs (x0, x[d/2]), (x1, x[d/2+1]), …: "neox" in ggml
};

/// Rotary position embedding (Su et al. 2021) of `dimensions` elements of a head from `first` on. A scaling
/// of the rotated elements (YaRN) is part of the table.
struct Rope {
    Buffer table = {};  ///< float32 [positions, dimensions / 2, 2]: cosine and sine; none: no rotation
    int dimensions = 0; ///< even
    int first = 0;
    RopeStyle style = RopeStyle::interleaved;
};

/// Prepares queries and keys in place and stores keys and values at the batch's slots:
///   q ← rope(q_norm(q)) · query_scale[position],  k ← rope(k_norm(k)),  v ← v_norm(v)
/// or, where `norm_after_rope`, the norm after the rotation (Hunyuan, Llama 4). Norms are per head, their
/// weights [key_length] or [value_length]; a norm over whole rows is a NormOp before.
/// q is [T, heads · key_length], k [T, kv_heads · key_length], v [T, kv_heads · value_length], no view where
/// the cache's values lie in its keys.
struct RopeStoreOp {
    View q;
    View k = {}; ///< none, and v none: the layer reads another layer's cache, nothing is stored
    View v = {};
    KvCache cache;
    int layer = 0;  ///< of the cache
    int layout = 0; ///< of the batch
    int heads = 0;
    Norm q_norm = {};
    Norm k_norm = {};
    Norm v_norm = {};
    bool norm_after_rope = false;
    Rope rope = {};
    Buffer query_scale = {}; ///< float32 [positions], or none: 1
};

/// Causal attention of every row over its sequence's cached tokens (Vaswani et al. 2017). For query head h
/// and its key/value head h · kv_heads / heads, over the tokens j that row i (at position p) sees:
///   s_j = scale · q·k_j;  s_j ← soft_cap · tanh(s_j / soft_cap);  s_j ← s_j + alibi[h] · (j − p)
///   out = Σ exp(s_j) v_j / (Σ exp(s_j) + exp(sinks[h]))
/// q is [T, heads · key_length], out [T, heads · value_length]. A padding row's result is 0.
struct AttentionOp {
    View q; ///< as RopeStoreOp left it
    View out;
    KvCache cache;
    int layer = 0;  ///< of the cache
    int layout = 0; ///< of the batch
    int heads = 0;
    float scale = 0.0f;    ///< usually 1/√key_length
    float soft_cap = 0.0f; ///< 0: none (Gemma 2)
    /// A row sees itself and the window − 1 tokens before it (Beltagy et al. 2020); 0: all before it. Where
    /// `chunked`, it sees itself and those before it whose position / window is its own (Llama 4).
    int window = 0;
    bool chunked = false;
    Buffer sinks = {}; ///< float32 [heads], or none (Xiao et al. 2023; gpt-oss)
    Buffer alibi = {}; ///< float32 [heads], or none (Press et al. 2021)
};

// ---------------------------------------------------------------- experts

enum class RouterScore : uint8_t { softmax, sigmoid };
enum class GroupScore : uint8_t { largest, two_largest }; ///< a group's score is the sum of these

/// Chooses `top_k` experts for each row (Shazeer et al. 2017; DeepSeek-AI 2024, arXiv 2412.19437):
///   p = softmax(logits) or σ(logits);  c = p + bias
///   of `groups` groups of neighbouring experts, the `top_groups` whose score over c is largest stay
///   experts[r, :] = the top_k largest c of those groups, largest first, ties by the smaller index
///   weights[r, :] = scale · p of these, divided by max(their sum, sum_floor) where `normalize`
struct RouteOp {
    View logits;    ///< [rows, experts]
    Buffer experts; ///< out: int32 [rows, top_k]
    Buffer weights; ///< out: float32 [rows, top_k]
    int top_k = 1;
    RouterScore score = RouterScore::softmax;
    Buffer bias = {}; ///< float32 [experts], or none: counts for the choice alone
    int groups = 1;
    int top_groups = 1;
    GroupScore group_score = GroupScore::largest;
    bool normalize = false;
    float sum_floor = 0.0f;
    float scale = 1.0f;
};

/// Each row's own experts applied to it. The weight is `experts` matrices of equal height, one under the
/// other: [experts · height, columns]. With e = experts_of[r, j]:
///   out[r · top_k + j, :] = prologue(x row) · input_scale[r, j] · weight_eᵀ + bias_e
/// where the x row is x[r, :], or x[r · top_k + j, :] where `per_slot`. out is [rows · top_k, height].
struct ExpertLinearOp {
    View x;
    Weight weight;
    View out;
    int experts = 0;
    int top_k = 1;
    Buffer experts_of; ///< int32 [rows, top_k], of RouteOp
    bool per_slot = false;
    Activation activation = {};
    Buffer bias = {};        ///< float32 [experts · height], or none
    Buffer input_scale = {}; ///< float32 [rows, top_k], or none: 1 (Llama 4 weighs what goes in)
};

/// out[r, :] = (or +=, where `accumulate`) scale · Σ_j weights[r, j] · x[r · top_k + j, :], in the order of
/// j.
struct CombineExpertsOp {
    View x;              ///< [rows · top_k, columns]
    View out;            ///< [rows, columns]
    Buffer weights = {}; ///< float32 [rows, top_k]; none: 1
    int top_k = 1;
    float scale = 1.0f;
    bool accumulate = false;
};

// ---------------------------------------------------------------- recurrences
//
// Each works on its own part of the state of the batch's spans. A padding row's result is 0.

/// Causal convolution of each channel along its sequence, with `kernel` taps:
///   out[t, c] = f(bias[c] + Σ_i weight[c, i] · x[t − kernel + 1 + i, c])
/// Inputs before the span's first row come from the state, which takes up the last ones. x and out are
/// [T, channels], not the same view.
struct ConvolveOp {
    View x;
    View out;
    Buffer weight;         ///< float32 [channels, kernel]
    Buffer bias = {};      ///< float32 [channels], or none
    Activation activation; ///< none or silu
    StateCache state;
    int layer = 0;
};

/// Mamba-2's recurrence (Dao & Gu 2024), one token after the other. For head h of group g = h · groups /
/// heads:
///   Δ = clamp(softplus(dt[t, h] + dt_bias[h]), dt_min, dt_max)
///   S ← exp(Δ · a[h]) · S + Δ · x[t, h, :] ⊗ b[t, g, :]
///   out[t, h, :] = S · c[t, g, :] + d[h] · x[t, h, :]
/// S is [head length, state length]; x and out are [T, heads · head length], b and c [T, groups · state
/// length], dt is [T, heads].
struct SsmScanOp {
    View x;
    View b;
    View c;
    View dt;
    View out;
    Buffer a;       ///< float32 [heads], negative: −exp(A_log)
    Buffer d;       ///< float32 [heads]
    Buffer dt_bias; ///< float32 [heads]
    int groups = 1;
    float dt_min = 0.0f;
    float dt_max = 3.4e38f;
    StateCache state;
    int layer = 0;
};

/// The gated delta rule (Yang, Kautz & Hatamizadeh 2024), one token after the other. For value head h and its
/// key head g = h · key heads / value heads, with q and k scaled to length 1 (x / √(Σx² + 1e-6)) and q also
/// divided by √(key length):
///   S ← exp(a[h] · softplus(decay[t, h] + dt_bias[h])) · S
///   S ← S + k ⊗ (σ(beta[t, h]) · (v − Sᵀk))
///   out[t, h, :] = Sᵀq
/// S is [key length, value length]; q and k are [T, key heads · key length], v and out
/// [T, value heads · value length], decay and beta [T, value heads].
struct DeltaRuleOp {
    View q;
    View k;
    View v;
    View decay;
    View beta;
    View out;
    Buffer a;       ///< float32 [value heads], negative: −exp(A_log)
    Buffer dt_bias; ///< float32 [value heads]
    int key_heads = 0;
    StateCache state;
    int layer = 0;
};

// ---------------------------------------------------------------- sampling

/// l ← (l > 0 ? l / factor : l · factor) − offset, in double precision; a finite logit stays finite, −∞ and
/// NaN stay.
struct LogitChange {
    int32_t token = 0;
    double factor = 1.0;
    double offset = 0.0;
};

/// One draw from a row of logits: changes (bias, penalties), then top-k, top-p, min-p, temperature, then one
/// token. See engine/sample/sampler.h for what each stage does.
struct SampleQuery {
    int32_t row = 0; ///< of the logits; several queries may name one row
    int32_t first_change = 0;
    int32_t changes = 0;
    float temperature = 1.0f; ///< 0: the likeliest token
    int32_t top_k = 0;        ///< 0: all
    float top_p = 1.0f;
    float min_p = 0.0f;
    double u = 0.0; ///< the random number of the draw, in [0, 1)
    /// Log-probabilities under the softmax of the unchanged logits: −1 none, 0 the drawn token's, n > 0 those
    /// of the n likeliest too.
    int32_t logprobs = -1;
};

/// What a query brings. `token` is −1 where no token can be drawn (all logits are −∞ or NaN).
struct SampleResult {
    int32_t token = -1;
    float logprob = 0.0f;
};
struct TokenLogit {
    int32_t token = -1; ///< −1: there are fewer
    float logprob = 0.0f;
};

/// Answers queries[i] in results[i] and, where max_logprobs > 0, top[i, :]; equal logits go by the smaller
/// token. Both arrays are copied by the call.
struct SampleOp {
    View logits; ///< [rows, vocab], float32; not changed
    std::span<const SampleQuery> queries;
    std::span<const LogitChange> changes; ///< of all queries, one after the other, applied in this order
    Buffer results;                       ///< out: SampleResult [queries]
    Buffer top = {};                      ///< out: TokenLogit [queries, max_logprobs]
    int max_logprobs = 0;
};

} // namespace orrery::kernels
