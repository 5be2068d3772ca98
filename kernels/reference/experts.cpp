// Routers and experts.
#include "kernels/reference/checks.h"
#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

using reference::number;
using reference::require;
using reference::require_apart;
using reference::Rows;

void ReferenceBackend::route(const RouteOp& op) {
    const int64_t rows = op.logits.rows;
    const int64_t experts = op.logits.columns;
    const Rows logits = rows_of(op.logits, rows, experts, "route's logits");
    require(op.groups > 0 && experts % op.groups == 0 && op.top_groups > 0 && op.top_groups <= op.groups,
            "route cannot choose " + number(op.top_groups) + " of " + number(op.groups) + " groups of " +
                number(experts) + " experts.");
    require(op.top_k > 0 && op.top_k <= experts / op.groups * op.top_groups,
            "route cannot choose " + number(op.top_k) + " of " + number(experts / op.groups * op.top_groups) +
                " experts.");
    const auto top_k = static_cast<size_t>(op.top_k);
    const size_t chosen = logits.rows * top_k;
    auto* const indices =
        reinterpret_cast<int32_t*>(bytes_of(op.experts, chosen * sizeof(int32_t), "route's experts"));
    const std::span<float> weights = floats(op.weights, chosen, "route's weights");
    own_memory_of(op.experts, "written");
    own_memory_of(op.weights, "written");
    const std::span<const float> bias =
        optional_floats(op.bias, static_cast<size_t>(experts), "route's bias");

    enqueue(&KernelProfile::other_ns, [=] {
        std::vector<float> row(logits.columns);
        for (size_t r = 0; r < logits.rows; ++r) {
            logits.read(r, row);
            reference::route(row, bias, op, {indices + r * top_k, top_k}, weights.subspan(r * top_k, top_k));
        }
    });
}

void ReferenceBackend::expert_linear(const ExpertLinearOp& op) {
    const StackedWeight& weight = weight_of(op.weight);
    require(op.experts > 0 && weight.rows % op.experts == 0, "expert_linear cannot cut a weight of " +
                                                                 number(weight.rows) + " rows into " +
                                                                 number(op.experts) + " experts.");
    require(op.top_k > 0 && op.out.rows % op.top_k == 0, "expert_linear cannot give " + number(op.out.rows) +
                                                             " rows " + number(op.top_k) + " experts each.");
    const Rows x = rows_of(op.x, op.per_slot ? op.out.rows : op.out.rows / op.top_k,
                           op.activation.gated ? 2 * weight.columns : weight.columns, "expert_linear's x");
    const Rows out = rows_to(op.out, op.out.rows, weight.rows / op.experts, "expert_linear's out");
    require_apart(op.out, {op.x}, "expert_linear");
    const auto* const indices = reinterpret_cast<const int32_t*>(
        bytes_of(op.experts_of, out.rows * sizeof(int32_t), "expert_linear's experts"));
    const std::span<const float> bias =
        optional_floats(op.bias, static_cast<size_t>(weight.rows), "expert_linear's bias");
    const std::span<const float> scales =
        optional_floats(op.input_scale, out.rows, "expert_linear's input_scale");

    const auto columns = static_cast<size_t>(weight.columns);
    const auto prepared = std::make_shared<std::vector<float>>();
    enqueue(&KernelProfile::other_ns, [=, activation = op.activation] {
        prepared->resize(x.rows * columns);
        std::vector<float> from(x.columns);
        for (size_t row = 0; row < x.rows; ++row) {
            x.read(row, from);
            reference::activate(from, activation, {prepared->data() + row * columns, columns});
        }
    });
    enqueue(&KernelProfile::matmul_ns, [=, &weight] {
        std::vector<std::vector<size_t>> slots_of(static_cast<size_t>(op.experts));
        for (size_t slot = 0; slot < out.rows; ++slot) {
            require(indices[slot] >= 0 && indices[slot] < op.experts, "expert_linear has no expert " +
                                                                          number(indices[slot]) + " among " +
                                                                          number(op.experts) + ".");
            slots_of[static_cast<size_t>(indices[slot])].push_back(slot);
        }
        std::vector<float> weight_row(columns);
        std::vector<double> products(out.rows * out.columns);
        for (size_t expert = 0; expert < slots_of.size(); ++expert)
            for (size_t i = 0; i < out.columns && !slots_of[expert].empty(); ++i) {
                const size_t index = expert * out.columns + i;
                weight.decode_row(static_cast<int64_t>(index), weight_row.data());
                for (const size_t slot : slots_of[expert]) {
                    const size_t row = op.per_slot ? slot : slot / static_cast<size_t>(op.top_k);
                    double product = reference::dot({prepared->data() + row * columns, columns}, weight_row);
                    if (!scales.empty())
                        product *= static_cast<double>(scales[slot]);
                    if (!bias.empty())
                        product += static_cast<double>(bias[index]);
                    products[slot * out.columns + i] = product;
                }
            }
        for (size_t slot = 0; slot < out.rows; ++slot)
            out.put(slot, false, [&](size_t i) { return products[slot * out.columns + i]; });
    });
}

void ReferenceBackend::combine_experts(const CombineExpertsOp& op) {
    require(op.top_k > 0, "combine_experts cannot add " + number(op.top_k) + " results.");
    const Rows x = rows_of(op.x, op.out.rows * op.top_k, op.out.columns, "combine_experts' x");
    const Rows out = rows_to(op.out, op.out.rows, op.out.columns, "combine_experts' out");
    require_apart(op.out, {op.x}, "combine_experts");
    const std::span<const float> weights = optional_floats(op.weights, x.rows, "combine_experts' weights");

    enqueue(&KernelProfile::other_ns,
            [=, top_k = static_cast<size_t>(op.top_k), scale = op.scale, accumulate = op.accumulate] {
                std::vector<float> part(x.columns);
                for (size_t row = 0; row < out.rows; ++row) {
                    std::vector<double> sums(out.columns);
                    for (size_t slot = row * top_k; slot < (row + 1) * top_k; ++slot) {
                        x.read(slot, part);
                        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[slot]);
                        for (size_t i = 0; i < part.size(); ++i)
                            sums[i] += weight * static_cast<double>(part[i]);
                    }
                    out.put(row, accumulate, [&](size_t i) { return static_cast<double>(scale) * sums[i]; });
                }
            });
}

} // namespace orrery::kernels
