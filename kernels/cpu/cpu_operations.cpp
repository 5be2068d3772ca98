// What the operations of the CPU back end are given: handles become pointers, shapes are checked.
#include "kernels/cpu/cpu_device.h"
#include "kernels/error.h"

#include <string>

namespace orrery::kernels::cpu {

NormArguments CpuBackend::norm_arguments(const Norm& norm, int64_t elements) const {
    NormArguments a;
    a.kind = norm.kind;
    a.eps = norm.eps;
    a.weight_offset = norm.weight_offset;
    if (norm.kind != NormKind::none) {
        a.weight = floats_or_null(norm.weight, elements);
        a.bias = floats_or_null(norm.bias, elements);
    }
    return a;
}

void CpuBackend::embed(const EmbedOp& op) {
    EmbedArguments a;
    a.table = &weights_.read(op.table);
    if (op.positions) {
        a.positions = &weights_.read(op.positions);
        if (a.positions->columns != a.table->columns)
            throw Error("The table of positions has " + std::to_string(a.positions->columns) +
                        " columns, that of tokens " + std::to_string(a.table->columns) + ".");
    }
    a.position_offset = op.position_offset;
    a.scale = op.scale;
    a.out = rows(op.out, program_.rows(), a.table->columns);
    program_.embed(a);
}

void CpuBackend::norm(const NormOp& op) {
    if (op.groups < 1 || op.x.columns % op.groups != 0)
        throw Error("A norm cannot cut " + std::to_string(op.x.columns) + " columns into " +
                    std::to_string(op.groups) + " equal groups.");
    NormOpArguments a;
    a.rows = op.x.rows;
    a.columns = op.x.columns;
    a.groups = op.groups;
    a.x = rows(op.x, a.rows, a.columns);
    a.out = rows(op.out, a.rows, a.columns);
    a.norm = norm_arguments(op.norm, op.weight_shared ? a.columns / a.groups : a.columns);
    a.weight_shared = op.weight_shared;
    if (op.add)
        a.add = rows(op.add, a.rows, a.columns);
    a.add_scale = op.add_scale;
    a.scale = op.scale;
    a.accumulate = op.accumulate;
    if (op.gate)
        a.gate = rows(op.gate, a.rows, a.columns);
    a.gate_order = op.gate_order;
    program_.norm(a);
}

void CpuBackend::linear(const LinearOp& op) {
    const CpuWeight& weight = weights_.read(op.weight);
    const bool activates = op.activation.kind != ActivationKind::none || op.activation.gated;
    if (op.norm.kind != NormKind::none && activates)
        throw Error("A product takes a norm or an activation before it, not both.");
    if (op.groups < 1 || weight.rows % op.groups != 0 || op.x.rows % op.groups != 0)
        throw Error("A weight of " + std::to_string(weight.rows) + " rows and " + std::to_string(op.x.rows) +
                    " rows of activations cannot be cut into " + std::to_string(op.groups) + " groups.");
    LinearArguments a;
    a.weight = &weight;
    a.rows = op.x.rows;
    a.groups = op.groups;
    a.x = rows(op.x, op.x.rows, weight.columns * (op.activation.gated ? 2 : 1));
    a.out = rows(op.out, op.x.rows, weight.rows / op.groups);
    a.norm = norm_arguments(op.norm, weight.columns);
    a.activation = op.activation;
    a.bias = floats_or_null(op.bias, weight.rows);
    a.scale = op.scale;
    a.accumulate = op.accumulate;
    program_.linear(a);
}

void CpuBackend::gate(const GateOp& op) {
    GateArguments a;
    a.rows = op.x.rows;
    a.columns = op.x.columns;
    a.gate_columns = op.gate.columns == 1 ? 1 : a.columns;
    a.gate = rows(op.gate, a.rows, a.gate_columns);
    a.x = rows(op.x, a.rows, a.columns);
    a.out = rows(op.out, a.rows, a.columns);
    a.activation = op.activation;
    program_.gate(a);
}

void CpuBackend::add(const AddOp& op) {
    program_.add(op.x.rows, op.x.columns, rows(op.x, op.x.rows, op.x.columns), op.scale, op.accumulate,
                 rows(op.out, op.x.rows, op.x.columns));
}

void CpuBackend::soft_cap(const SoftCapOp& op) {
    program_.soft_cap(op.x.rows, op.x.columns, rows(op.x, op.x.rows, op.x.columns), op.scale, op.cap);
}

void CpuBackend::gather(const GatherOp& op) {
    program_.gather(rows(op.x, program_.rows(), op.x.columns),
                    rows(op.out, program_.output_rows(), op.x.columns), op.x.columns);
}

void CpuBackend::rope_store(const RopeStoreOp& op) {
    KvStore& store = caches_.write(op.cache);
    const KvCacheSpec& spec = store.spec();
    check_layer(store, op.layer);
    if (op.rope.dimensions < 0 || op.rope.dimensions % 2 != 0 || op.rope.first < 0 ||
        op.rope.first + op.rope.dimensions > spec.key_length)
        throw Error("A head of " + std::to_string(spec.key_length) + " elements has no " +
                    std::to_string(op.rope.dimensions) + " elements from " + std::to_string(op.rope.first) +
                    " on to be rotated in pairs.");
    if (static_cast<bool>(op.v) != (op.k && !spec.value_in_key))
        throw Error(op.v ? "Values cannot be stored without keys, or where they lie in their keys."
                         : "Keys cannot be stored without values.");
    RopeStoreArguments a;
    a.store = &store;
    a.layer = op.layer;
    a.layout = op.layout;
    a.heads = op.heads;
    a.q = rows(op.q, program_.rows(), int64_t{op.heads} * spec.key_length);
    if (op.k)
        a.k = rows(op.k, program_.rows(), int64_t{spec.kv_heads} * spec.key_length);
    if (op.v)
        a.v = rows(op.v, program_.rows(), int64_t{spec.kv_heads} * spec.value_length);
    a.q_norm = norm_arguments(op.q_norm, spec.key_length);
    a.k_norm = norm_arguments(op.k_norm, spec.key_length);
    a.v_norm = norm_arguments(op.v_norm, spec.value_length);
    a.norm_after_rope = op.norm_after_rope;
    a.rope = op.rope;
    a.rope_table = floats_or_null(op.rope.table, program_.positions_end() * op.rope.dimensions);
    a.query_scale = floats_or_null(op.query_scale, program_.positions_end());
    program_.rope_store(a);
}

void CpuBackend::attention(const AttentionOp& op) {
    KvStore& store = caches_.write(op.cache);
    const KvCacheSpec& spec = store.spec();
    check_layer(store, op.layer);
    if (op.heads < 1 || op.heads % spec.kv_heads != 0)
        throw Error(std::to_string(op.heads) + " query heads cannot share " + std::to_string(spec.kv_heads) +
                    " key/value heads evenly.");
    if (op.window < 0 || (op.chunked && op.window == 0))
        throw Error("Attention cannot see a window of " + std::to_string(op.window) + " tokens.");
    AttentionArguments a;
    a.store = &store;
    a.layer = op.layer;
    a.layout = op.layout;
    a.heads = op.heads;
    a.scale = op.scale;
    a.soft_cap = op.soft_cap;
    a.window = op.window;
    a.chunked = op.chunked;
    a.sinks = floats_or_null(op.sinks, op.heads);
    a.alibi = floats_or_null(op.alibi, op.heads);
    a.q = rows(op.q, program_.rows(), int64_t{op.heads} * spec.key_length);
    a.out = rows(op.out, program_.rows(), int64_t{op.heads} * spec.value_length);
    program_.attention(a);
}

void CpuBackend::route(const RouteOp& op) {
    RouteArguments a;
    a.rows = op.logits.rows;
    a.experts = op.logits.columns;
    if (op.groups < 1 || a.experts % op.groups != 0 || op.top_groups < 1 || op.top_groups > op.groups)
        throw Error("A router cannot choose " + std::to_string(op.top_groups) + " of " +
                    std::to_string(op.groups) + " groups of " + std::to_string(a.experts) + " experts.");
    if (op.top_k < 1 || op.top_k > a.experts / op.groups * op.top_groups)
        throw Error("A router cannot choose " + std::to_string(op.top_k) + " of " +
                    std::to_string(a.experts / op.groups * op.top_groups) + " experts.");
    a.logits = rows(op.logits, a.rows, a.experts);
    const auto results = static_cast<size_t>(a.rows * op.top_k) * 4;
    a.chosen = reinterpret_cast<int32_t*>(checked(op.experts, buffers_.write(op.experts), 0, results));
    a.weights = reinterpret_cast<float*>(checked(op.weights, buffers_.write(op.weights), 0, results));
    a.top_k = op.top_k;
    a.score = op.score;
    a.bias = floats_or_null(op.bias, a.experts);
    a.groups = op.groups;
    a.top_groups = op.top_groups;
    a.group_score = op.group_score;
    a.normalize = op.normalize;
    a.sum_floor = op.sum_floor;
    a.scale = op.scale;
    program_.route(a);
}

void CpuBackend::expert_linear(const ExpertLinearOp& op) {
    const CpuWeight& weight = weights_.read(op.weight);
    if (op.experts < 1 || weight.rows % op.experts != 0 || op.top_k < 1 || op.out.rows % op.top_k != 0)
        throw Error("A weight of " + std::to_string(weight.rows) + " rows and " +
                    std::to_string(op.out.rows) + " results cannot be cut into " +
                    std::to_string(op.experts) + " experts, " + std::to_string(op.top_k) + " for each row.");
    ExpertArguments a;
    a.linear.weight = &weight;
    a.linear.rows = op.out.rows;
    a.linear.x = rows(op.x, op.per_slot ? op.out.rows : op.out.rows / op.top_k,
                      weight.columns * (op.activation.gated ? 2 : 1));
    a.linear.out = rows(op.out, op.out.rows, weight.rows / op.experts);
    a.linear.activation = op.activation;
    a.linear.bias = floats_or_null(op.bias, weight.rows);
    a.experts = op.experts;
    a.top_k = op.top_k;
    a.chosen = reinterpret_cast<const int32_t*>(floats(op.experts_of, op.out.rows));
    a.per_slot = op.per_slot;
    a.input_scale = floats_or_null(op.input_scale, op.out.rows);
    program_.expert_linear(a);
}

void CpuBackend::combine_experts(const CombineExpertsOp& op) {
    if (op.top_k < 1)
        throw Error("There are no sums of " + std::to_string(op.top_k) + " experts.");
    CombineArguments a;
    a.rows = op.out.rows;
    a.columns = op.out.columns;
    a.x = rows(op.x, op.out.rows * op.top_k, op.out.columns);
    a.out = rows(op.out, op.out.rows, op.out.columns);
    a.weights = floats_or_null(op.weights, op.out.rows * op.top_k);
    a.top_k = op.top_k;
    a.scale = op.scale;
    a.accumulate = op.accumulate;
    program_.combine_experts(a);
}

void CpuBackend::convolve(const ConvolveOp&) {
    not_built("The convolution");
}

void CpuBackend::ssm_scan(const SsmScanOp&) {
    not_built("The state space scan");
}

void CpuBackend::delta_rule(const DeltaRuleOp&) {
    not_built("The delta rule");
}

void CpuBackend::sample(const SampleOp& op) {
    const auto queries = static_cast<int64_t>(op.queries.size());
    const auto changes = static_cast<int64_t>(op.changes.size());
    for (const SampleQuery& query : op.queries) {
        if (query.row < 0 || query.row >= op.logits.rows)
            throw Error("There is no row " + std::to_string(query.row) + " among " +
                        std::to_string(op.logits.rows) + " rows of logits.");
        if (query.first_change < 0 || query.changes < 0 || query.changes > changes - query.first_change)
            throw Error("There are no " + std::to_string(query.changes) + " changes of logits from " +
                        std::to_string(query.first_change) + " on among " + std::to_string(changes) + ".");
        if (query.logprobs > op.max_logprobs)
            throw Error("There is no room for " + std::to_string(query.logprobs) +
                        " log-probabilities, only for " + std::to_string(op.max_logprobs) + ".");
    }
    const auto out = [this](Buffer buffer, int64_t count, size_t bytes) {
        return checked(buffer, buffers_.write(buffer), 0, static_cast<size_t>(count) * bytes);
    };
    SampleArguments a;
    a.logits = rows(op.logits, op.logits.rows, op.logits.columns);
    a.vocabulary = op.logits.columns;
    a.queries = op.queries;
    a.changes = op.changes;
    a.results = reinterpret_cast<SampleResult*>(out(op.results, queries, sizeof(SampleResult)));
    if (op.max_logprobs > 0)
        a.top = reinterpret_cast<TopToken*>(out(op.top, queries * op.max_logprobs, sizeof(TopToken)));
    a.max_logprobs = op.max_logprobs;
    program_.sample(a);
}

} // namespace orrery::kernels::cpu
