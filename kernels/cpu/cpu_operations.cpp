// What the operations of the CPU back end are given: handles become pointers, shapes are checked.
#include "kernels/cpu/cpu_device.h"
#include "kernels/error.h"

#include <string>

namespace orrery::kernels::cpu {

void CpuBackend::embed(const EmbedOp& op) {
    const CpuWeight& table = weights_.read(op.table);
    if (op.positions)
        not_built("A table of positions");
    program_.embed(table, rows(op.out, program_.rows(), table.columns), op.scale);
}

void CpuBackend::norm(const NormOp&) {
    not_built("The norm");
}

void CpuBackend::linear(const LinearOp& op) {
    const CpuWeight& weight = weights_.read(op.weight);
    const bool gated = op.activation.gated;
    if (op.norm.kind == NormKind::layer || (op.norm.kind == NormKind::rms && !op.norm.weight) ||
        op.norm.bias || op.norm.weight_offset != 0.0f)
        not_built("This norm");
    if (op.activation.kind != ActivationKind::none &&
        (op.activation.kind != ActivationKind::silu || !gated || op.activation.alpha != 1.0f ||
         op.activation.limit != 0.0f || op.activation.up_offset != 0.0f))
        not_built("This activation");
    if (op.scale != 1.0f || op.groups != 1)
        not_built("A scaled or grouped product");
    LinearArguments a;
    a.weight = &weight;
    a.rows = op.x.rows;
    a.x = rows(op.x, op.x.rows, weight.columns * (gated ? 2 : 1));
    a.out = rows(op.out, op.x.rows, weight.rows);
    a.norm = op.norm;
    a.norm_weight = op.norm.kind != NormKind::none ? floats(op.norm.weight, weight.columns) : nullptr;
    a.activation = op.activation;
    a.bias = op.bias ? floats(op.bias, weight.rows) : nullptr;
    a.accumulate = op.accumulate;
    program_.linear(a);
}

void CpuBackend::gate(const GateOp&) {
    not_built("The gate");
}

void CpuBackend::add(const AddOp&) {
    not_built("The addition");
}

void CpuBackend::soft_cap(const SoftCapOp&) {
    not_built("The soft cap");
}

void CpuBackend::gather(const GatherOp& op) {
    program_.gather(rows(op.x, program_.rows(), op.x.columns),
                    rows(op.out, program_.output_rows(), op.x.columns), op.x.columns);
}

void CpuBackend::rope_store(const RopeStoreOp& op) {
    KvStore& store = caches_.write(op.cache);
    const KvCacheSpec& spec = store.spec();
    check_layer(store, op.layer);
    const auto is_none = [](const Norm& norm) { return norm.kind == NormKind::none; };
    if (!op.k || !op.v || !is_none(op.q_norm) || !is_none(op.k_norm) || !is_none(op.v_norm) ||
        op.rope.first != 0 || op.query_scale)
        not_built("This rotation");
    RopeStoreArguments a;
    a.store = &store;
    a.layer = op.layer;
    a.layout = op.layout;
    a.heads = op.heads;
    a.q = rows(op.q, program_.rows(), int64_t{op.heads} * spec.key_length);
    a.k = rows(op.k, program_.rows(), int64_t{spec.kv_heads} * spec.key_length);
    a.v = rows(op.v, program_.rows(), int64_t{spec.kv_heads} * spec.value_length);
    a.rope = op.rope;
    a.rope_table =
        op.rope.table ? floats(op.rope.table, program_.positions_end() * op.rope.dimensions) : nullptr;
    program_.rope_store(a);
}

void CpuBackend::attention(const AttentionOp& op) {
    KvStore& store = caches_.write(op.cache);
    const KvCacheSpec& spec = store.spec();
    check_layer(store, op.layer);
    if (op.soft_cap != 0.0f || op.window != 0 || op.sinks || op.alibi)
        not_built("This attention");
    AttentionArguments a;
    a.store = &store;
    a.layer = op.layer;
    a.layout = op.layout;
    a.heads = op.heads;
    a.scale = op.scale;
    a.q = rows(op.q, program_.rows(), int64_t{op.heads} * spec.key_length);
    a.out = rows(op.out, program_.rows(), int64_t{op.heads} * spec.value_length);
    program_.attention(a);
}

void CpuBackend::route(const RouteOp&) {
    not_built("The router");
}

void CpuBackend::expert_linear(const ExpertLinearOp&) {
    not_built("The product over experts");
}

void CpuBackend::combine_experts(const CombineExpertsOp&) {
    not_built("The sum over experts");
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

void CpuBackend::sample(const SampleOp&) {
    not_built("The sampler");
}

} // namespace orrery::kernels::cpu
