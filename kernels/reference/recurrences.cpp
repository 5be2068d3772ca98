// Convolutions and recurrences over a sequence, with a state.
#include "kernels/reference/batch.h"
#include "kernels/reference/caches.h"
#include "kernels/reference/checks.h"

#include <algorithm>

namespace orrery::kernels {

using reference::number;
using reference::require;
using reference::require_apart;
using reference::Rows;

void ReferenceBackend::check_states(const Batch& batch, const State& state, int layer,
                                    const char* operation) {
    require(layer >= 0 && layer < state.spec.layers, std::string(operation) + " names layer " +
                                                         number(layer) + " of a state of " +
                                                         number(state.spec.layers) + ".");
    std::vector<bool> taken(static_cast<size_t>(state.spec.slot_count));
    const auto take = [&](int32_t slot) {
        require(slot >= 0 && slot < state.spec.slot_count, std::string(operation) + " names slot " +
                                                               number(slot) + " of a state of " +
                                                               number(state.spec.slot_count) + ".");
        require(!taken[static_cast<size_t>(slot)],
                "Slot " + number(slot) + " is written by two spans or snapshots of one batch.");
        taken[static_cast<size_t>(slot)] = true;
    };
    for (const Span& span : batch.spans)
        take(span.state_slot);
    for (const StateSnapshot& snapshot : batch.snapshots)
        take(snapshot.slot);
}

void ReferenceBackend::for_each_token(const Batch& batch, const StateOf& state_of,
                                      const std::function<void(size_t, std::span<float>)>& step,
                                      const Rows& out) {
    const std::vector<float> zeros(out.columns);
    auto snapshot = batch.snapshots.begin();
    size_t next_row = 0;
    for (const Span& span : batch.spans) {
        for (; next_row < static_cast<size_t>(span.first_row); ++next_row)
            out.write(next_row, zeros);
        const std::span<float> state = state_of(span.state_slot);
        if (span.first_position == 0)
            std::fill(state.begin(), state.end(), 0.0f);
        for (const size_t end = next_row + static_cast<size_t>(span.rows); next_row < end; ++next_row) {
            step(next_row, state);
            for (; snapshot != batch.snapshots.end() && snapshot->row == static_cast<int32_t>(next_row);
                 ++snapshot)
                std::copy(state.begin(), state.end(), state_of(snapshot->slot).begin());
        }
    }
    for (; next_row < out.rows; ++next_row)
        out.write(next_row, zeros);
}

void ReferenceBackend::convolve(const ConvolveOp& op) {
    const auto batch = current_batch("convolve");
    const State& state = state_of(op.state);
    const auto T = static_cast<int64_t>(batch->rows());
    const int64_t channels = state.spec.channels;
    require(channels > 0, "convolve needs a state with channels.");
    check_states(*batch, state, op.layer, "convolve");
    const Rows x = rows_of(op.x, T, channels, "convolve's x");
    const Rows out = rows_to(op.out, T, channels, "convolve's out");
    require_apart(op.out, {op.x}, "convolve");
    require(!op.activation.gated, "convolve's activation cannot be a gated one.");
    const std::span<const float> weight =
        floats(op.weight, x.columns * static_cast<size_t>(state.spec.kernel), "convolve's weight");
    const std::span<const float> bias = optional_floats(op.bias, x.columns, "convolve's bias");

    enqueue(&KernelProfile::other_ns, [=, &state, kind = op.activation.kind, layer = op.layer] {
        std::vector<float> row(x.columns), result(out.columns);
        for_each_token(
            *batch, [&](int32_t slot) { return state.inputs(layer, slot); },
            [&](size_t t, std::span<float> inputs) {
                x.read(t, row);
                reference::convolve(row, weight, bias, kind, inputs, result);
                out.write(t, result);
            },
            out);
    });
}

void ReferenceBackend::ssm_scan(const SsmScanOp& op) {
    const auto batch = current_batch("ssm_scan");
    const State& state = state_of(op.state);
    const StateCacheSpec& spec = state.spec;
    const auto T = static_cast<int64_t>(batch->rows());
    require(spec.heads > 0, "ssm_scan needs a state with heads.");
    require(op.groups > 0 && spec.heads % op.groups == 0,
            number(spec.heads) + " heads cannot share " + number(op.groups) + " groups evenly.");
    check_states(*batch, state, op.layer, "ssm_scan");
    const auto heads = static_cast<size_t>(spec.heads);
    const auto groups = static_cast<size_t>(op.groups);
    const auto head_length = static_cast<size_t>(spec.rows);
    const auto state_length = static_cast<size_t>(spec.columns);
    const Rows x = rows_of(op.x, T, int64_t{spec.heads} * spec.rows, "ssm_scan's x");
    const Rows b = rows_of(op.b, T, int64_t{op.groups} * spec.columns, "ssm_scan's b");
    const Rows c = rows_of(op.c, T, int64_t{op.groups} * spec.columns, "ssm_scan's c");
    const Rows dt = rows_of(op.dt, T, spec.heads, "ssm_scan's dt");
    const Rows out = rows_to(op.out, T, int64_t{spec.heads} * spec.rows, "ssm_scan's out");
    require_apart(op.out, {op.x, op.b, op.c, op.dt}, "ssm_scan");
    const std::span<const float> a = floats(op.a, heads, "ssm_scan's a");
    const std::span<const float> d = floats(op.d, heads, "ssm_scan's d");
    const std::span<const float> dt_bias = floats(op.dt_bias, heads, "ssm_scan's dt_bias");

    enqueue(&KernelProfile::other_ns, [=, &state, layer = op.layer, dt_min = op.dt_min, dt_max = op.dt_max] {
        std::vector<float> inputs(x.columns), ins(b.columns), outs(c.columns), steps(heads),
            result(out.columns);
        for_each_token(
            *batch, [&](int32_t slot) { return state.heads(layer, slot); },
            [&](size_t t, std::span<float> states) {
                x.read(t, inputs);
                b.read(t, ins);
                c.read(t, outs);
                dt.read(t, steps);
                for (size_t h = 0; h < heads; ++h) {
                    const size_t group = h * groups / heads;
                    reference::ssm_step(
                        {&inputs[h * head_length], head_length}, {&ins[group * state_length], state_length},
                        {&outs[group * state_length], state_length},
                        {steps[h], a[h], d[h], dt_bias[h], dt_min, dt_max},
                        states.subspan(h * head_length * state_length, head_length * state_length),
                        {&result[h * head_length], head_length});
                }
                out.write(t, result);
            },
            out);
    });
}

void ReferenceBackend::delta_rule(const DeltaRuleOp& op) {
    const auto batch = current_batch("delta_rule");
    const State& state = state_of(op.state);
    const StateCacheSpec& spec = state.spec;
    const auto T = static_cast<int64_t>(batch->rows());
    require(spec.heads > 0, "delta_rule needs a state with heads.");
    require(op.key_heads > 0 && spec.heads % op.key_heads == 0,
            number(spec.heads) + " value heads cannot share " + number(op.key_heads) + " key heads evenly.");
    check_states(*batch, state, op.layer, "delta_rule");
    const auto heads = static_cast<size_t>(spec.heads);
    const auto key_heads = static_cast<size_t>(op.key_heads);
    const auto key_length = static_cast<size_t>(spec.rows);
    const auto value_length = static_cast<size_t>(spec.columns);
    const Rows q = rows_of(op.q, T, int64_t{op.key_heads} * spec.rows, "delta_rule's q");
    const Rows k = rows_of(op.k, T, int64_t{op.key_heads} * spec.rows, "delta_rule's k");
    const Rows v = rows_of(op.v, T, int64_t{spec.heads} * spec.columns, "delta_rule's v");
    const Rows decay = rows_of(op.decay, T, spec.heads, "delta_rule's decay");
    const Rows beta = rows_of(op.beta, T, spec.heads, "delta_rule's beta");
    const Rows out = rows_to(op.out, T, int64_t{spec.heads} * spec.columns, "delta_rule's out");
    require_apart(op.out, {op.q, op.k, op.v, op.decay, op.beta}, "delta_rule");
    const std::span<const float> a = floats(op.a, heads, "delta_rule's a");
    const std::span<const float> dt_bias = floats(op.dt_bias, heads, "delta_rule's dt_bias");

    enqueue(&KernelProfile::other_ns, [=, &state, layer = op.layer] {
        std::vector<float> queries(q.columns), keys(k.columns), values(v.columns), decays(heads),
            betas(heads), result(out.columns);
        for_each_token(
            *batch, [&](int32_t slot) { return state.heads(layer, slot); },
            [&](size_t t, std::span<float> states) {
                q.read(t, queries);
                k.read(t, keys);
                v.read(t, values);
                decay.read(t, decays);
                beta.read(t, betas);
                for (size_t h = 0; h < heads; ++h) {
                    const size_t key_head = h * key_heads / heads;
                    reference::delta_step(
                        {&queries[key_head * key_length], key_length},
                        {&keys[key_head * key_length], key_length}, {&values[h * value_length], value_length},
                        {decays[h], betas[h], a[h], dt_bias[h]},
                        states.subspan(h * key_length * value_length, key_length * value_length),
                        {&result[h * value_length], value_length});
                }
                out.write(t, result);
            },
            out);
    });
}

} // namespace orrery::kernels
