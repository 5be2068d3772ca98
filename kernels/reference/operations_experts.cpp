#include "kernels/reference/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::kernels::reference {

namespace {

/// The index of the largest value among those that are `open`, the first of equal ones.
size_t largest(std::span<const double> values, const std::vector<bool>& open) {
    size_t best = values.size();
    for (size_t i = 0; i < values.size(); ++i)
        if (open[i] && (best == values.size() || values[i] > values[best]))
            best = i;
    return best;
}

/// p of RouteOp.
std::vector<double> scores(std::span<const float> logits, RouterScore kind) {
    std::vector<double> p(logits.begin(), logits.end());
    if (kind == RouterScore::sigmoid) {
        for (double& value : p)
            value = activate(ActivationKind::sigmoid, value);
        return p;
    }
    const double greatest = *std::max_element(p.begin(), p.end());
    double total = 0.0;
    for (double& value : p) {
        value = std::exp(value - greatest);
        total += value;
    }
    for (double& value : p)
        value /= total;
    return p;
}

} // namespace

void route(std::span<const float> logits, std::span<const float> bias, const RouteOp& op,
           std::span<int32_t> experts, std::span<float> weights) {
    const std::vector<double> p = scores(logits, op.score);
    std::vector<double> choice = p;
    for (size_t i = 0; i < bias.size(); ++i)
        choice[i] += static_cast<double>(bias[i]);

    std::vector<bool> open(p.size(), true);
    const auto groups = static_cast<size_t>(op.groups);
    if (groups > 1) {
        const size_t size = p.size() / groups;
        std::vector<double> group_scores(groups);
        for (size_t group = 0; group < groups; ++group) {
            const std::span members(&choice[group * size], size);
            std::vector<bool> left(size, true);
            const size_t counted = op.group_score == GroupScore::two_largest ? 2 : 1;
            for (size_t i = 0; i < std::min(counted, size); ++i) {
                const size_t best = largest(members, left);
                left[best] = false;
                group_scores[group] += members[best];
            }
        }
        std::vector<bool> dropped(groups, true);
        for (int i = 0; i < op.top_groups; ++i)
            dropped[largest(group_scores, dropped)] = false;
        for (size_t i = 0; i < p.size(); ++i)
            open[i] = !dropped[i / size];
    }

    double sum = 0.0;
    for (int32_t& expert : experts) {
        const size_t best = largest(choice, open);
        open[best] = false;
        expert = static_cast<int32_t>(best);
        sum += p[best];
    }
    const double divisor = op.normalize ? std::max(sum, static_cast<double>(op.sum_floor)) : 1.0;
    for (size_t i = 0; i < weights.size(); ++i)
        weights[i] =
            static_cast<float>(static_cast<double>(op.scale) * p[static_cast<size_t>(experts[i])] / divisor);
}

} // namespace orrery::kernels::reference
