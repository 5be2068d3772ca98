// Norms of their own, gates, sums and caps: a row is an item.
#include "kernels/cpu/program.h"

namespace orrery::kernels::cpu {

void Program::norm(const NormOpArguments& a) {
    grow_scratch(static_cast<size_t>(a.columns) * sizeof(float));
    record(&KernelProfile::norm_ns, a.rows, fair_chunk(a.rows),
           [this, a](int64_t first, int64_t last, int thread) {
               const Activation silu_gate = {.kind = ActivationKind::silu, .gated = true};
               const int64_t width = a.columns / a.groups;
               const bool gate_before = a.gate && a.gate_order == GateOrder::before;
               const bool gate_after = a.gate && a.gate_order == GateOrder::after;
               for (int64_t row = first; row < last; ++row) {
                   const float* from = a.x.row(row);
                   float* out = a.out.row(row);
                   // What is not the result as it is goes by way of a row of scratch.
                   const bool direct = a.scale == 1.0f && !a.accumulate;
                   float* to = direct ? out : scratch<float>(thread);
                   if (a.add)
                       kernels_.add(a.add.row(row), a.add_scale, true, a.x.row(row), a.columns);
                   if (gate_before) {
                       kernels_.activate(silu_gate, a.gate.row(row), from, to, a.columns);
                       from = to;
                   }
                   for (int64_t group = 0; group < a.groups; ++group) {
                       NormArguments norm = a.norm;
                       const int64_t start = a.weight_shared ? 0 : group * width;
                       norm.weight += norm.weight != nullptr ? start : 0;
                       norm.bias += norm.bias != nullptr ? start : 0;
                       kernels_.norm(norm, from + group * width, to + group * width, width);
                   }
                   if (gate_after)
                       kernels_.activate(silu_gate, a.gate.row(row), to, to, a.columns);
                   if (!direct)
                       kernels_.add(to, a.scale, a.accumulate, out, a.columns);
               }
           });
}

void Program::gate(const GateArguments& a) {
    record(&KernelProfile::other_ns, a.rows, fair_chunk(a.rows), [this, a](int64_t first, int64_t last, int) {
        const Activation single = {.kind = a.activation.kind, .alpha = a.activation.alpha};
        for (int64_t row = first; row < last; ++row) {
            if (a.gate_columns == a.columns) {
                kernels_.activate(single, a.gate.row(row), a.x.row(row), a.out.row(row), a.columns);
                continue;
            }
            float factor = 0.0f;
            kernels_.activate(single, a.gate.row(row), nullptr, &factor, 1);
            kernels_.add(a.x.row(row), factor, false, a.out.row(row), a.columns);
        }
    });
}

void Program::add(int64_t rows, int64_t columns, Rows x, float scale, bool accumulate, Rows out) {
    record(&KernelProfile::other_ns, rows, fair_chunk(rows),
           [this, columns, x, scale, accumulate, out](int64_t first, int64_t last, int) {
               for (int64_t row = first; row < last; ++row)
                   kernels_.add(x.row(row), scale, accumulate, out.row(row), columns);
           });
}

void Program::soft_cap(int64_t rows, int64_t columns, Rows x, float scale, float cap) {
    record(&KernelProfile::other_ns, rows, fair_chunk(rows),
           [this, columns, x, scale, cap](int64_t first, int64_t last, int) {
               for (int64_t row = first; row < last; ++row)
                   kernels_.soft_cap(x.row(row), scale, cap, x.row(row), columns);
           });
}

} // namespace orrery::kernels::cpu
