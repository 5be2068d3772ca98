#include "engine/model/model_weights.h"

#include "engine/model/plan_builder.h"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

double operations(std::span<const WeightUse> uses) {
    double sum = 0;
    for (const WeightUse& use : uses)
        sum += 2.0 * static_cast<double>(use.elements) * use.used / use.experts;
    return sum;
}

} // namespace

ModelWeights::ModelWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config,
                           kernels::Backend& backend, const LoadProgress& progress,
                           const std::atomic<bool>* cancel)
    : file_(std::move(file)), config_(config), tensors_(backend) {
    WeightLoader loader(*file_, tensors_, progress, cancel);
    plan_ = build_plan(config_, loader);
}

size_t ModelWeights::pass_bytes(int rows, bool outputs) const {
    size_t sum = 0;
    const auto add = [&](const WeightUse& use) {
        const auto experts = static_cast<size_t>(use.experts);
        const size_t chosen =
            std::min(experts, static_cast<size_t>(std::max(rows, 0)) * static_cast<size_t>(use.used));
        sum += use.bytes / experts * chosen;
    };
    std::ranges::for_each(plan_.layer_weights, add);
    if (outputs)
        std::ranges::for_each(plan_.output_weights, add);
    return sum;
}

double ModelWeights::layer_operations() const {
    return operations(plan_.layer_weights);
}

double ModelWeights::output_operations() const {
    return operations(plan_.output_weights);
}

} // namespace orrery
