// Routers and products over experts.
#include "kernels/cpu/program.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::kernels::cpu {

namespace {

/// Rows of one expert that are multiplied at once.
constexpr int64_t expert_rows = 32;

/// The index of the largest of `count` values whose `closed` is not set, the first of equal ones.
int64_t largest(const double* values, const uint8_t* closed, int64_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; ++i)
        if (!closed[i] && (best < 0 || values[i] > values[best]))
            best = i;
    return best;
}

/// RouteOp's formula over one row. Doubles, so that close choices are those of the reference. `p` and
/// `choice` hold a number for each expert, `group_scores` one for each group; `closed` flags for both.
void route_row(const RouteArguments& a, const float* logits, int32_t* experts, float* weights, double* p,
               double* choice, double* group_scores, uint8_t* closed) {
    if (a.score == RouterScore::sigmoid) {
        for (int64_t i = 0; i < a.experts; ++i)
            p[i] = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[i])));
    } else {
        const double peak = *std::max_element(logits, logits + a.experts);
        double total = 0.0;
        for (int64_t i = 0; i < a.experts; ++i) {
            p[i] = std::exp(static_cast<double>(logits[i]) - peak);
            total += p[i];
        }
        for (int64_t i = 0; i < a.experts; ++i)
            p[i] /= total;
    }
    for (int64_t i = 0; i < a.experts; ++i)
        choice[i] = a.bias != nullptr ? p[i] + static_cast<double>(a.bias[i]) : p[i];

    std::fill_n(closed, a.experts, uint8_t{0});
    if (a.groups > 1) {
        const int64_t size = a.experts / a.groups;
        const int64_t counted = std::min<int64_t>(a.group_score == GroupScore::two_largest ? 2 : 1, size);
        for (int64_t group = 0; group < a.groups; ++group) {
            group_scores[group] = 0.0;
            uint8_t* members = closed + group * size;
            for (int64_t i = 0; i < counted; ++i) {
                const int64_t best = largest(choice + group * size, members, size);
                members[best] = 1;
                group_scores[group] += choice[group * size + best];
            }
        }
        uint8_t* kept = closed + a.experts;
        std::fill_n(kept, a.groups, uint8_t{0});
        for (int i = 0; i < a.top_groups; ++i)
            kept[largest(group_scores, kept, a.groups)] = 1;
        for (int64_t i = 0; i < a.experts; ++i)
            closed[i] = kept[i / size] ? 0 : 1;
    }

    double sum = 0.0;
    for (int64_t i = 0; i < a.top_k; ++i) {
        const int64_t best = largest(choice, closed, a.experts);
        closed[best] = 1;
        experts[i] = static_cast<int32_t>(best);
        sum += p[best];
    }
    const double divisor = a.normalize ? std::max(sum, static_cast<double>(a.sum_floor)) : 1.0;
    for (int64_t i = 0; i < a.top_k; ++i)
        weights[i] = static_cast<float>(static_cast<double>(a.scale) * p[experts[i]] / divisor);
}

} // namespace

void Program::route(const RouteArguments& a) {
    grow_scratch(static_cast<size_t>(2 * a.experts + a.groups) * sizeof(double) +
                 static_cast<size_t>(a.experts + a.groups));
    record(&KernelProfile::other_ns, a.rows, fair_chunk(a.rows),
           [this, a](int64_t first, int64_t last, int thread) {
               auto* p = scratch<double>(thread);
               double* choice = p + a.experts;
               double* group_scores = choice + a.experts;
               auto* closed = reinterpret_cast<uint8_t*>(group_scores + a.groups);
               for (int64_t row = first; row < last; ++row)
                   route_row(a, a.logits.row(row), a.chosen + row * a.top_k, a.weights + row * a.top_k, p,
                             choice, group_scores, closed);
           });
}

/// Which rows meet which expert, found when the program runs. Slot r · top_k + j is the j-th expert of row r.
/// Rows of one expert lie side by side among the prepared rows, from a row group on.
struct Program::ExpertLists {
    int32_t* active;  ///< experts that some slot names, in ascending order
    int32_t* starts;  ///< of each expert: its first prepared row
    int32_t* counts;  ///< of each expert: its rows
    int32_t* slots;   ///< of each prepared row: its slot
    int32_t* places;  ///< of each slot: its prepared row; −1: its expert does not exist
    int32_t* actives; ///< how many experts are active
};

void Program::expert_linear(const ExpertArguments& a) {
    const CpuWeight& weight = *a.linear.weight;
    const int64_t columns = weight.columns;
    const int64_t slots = a.linear.rows;
    const int64_t height = weight.rows / a.experts;
    const int64_t most_active = std::min<int64_t>(a.experts, slots);
    const int64_t prepared = slots + most_active * (row_group - 1);
    if (slots <= 0)
        return;

    expert_lists_.grow(static_cast<size_t>(most_active + 2 * a.experts + prepared + slots + 1) *
                       sizeof(int32_t));
    const auto lists = [this, most_active, prepared, slots, experts = a.experts] {
        ExpertLists l;
        l.active = expert_lists_.as<int32_t>();
        l.starts = l.active + most_active;
        l.counts = l.starts + experts;
        l.slots = l.counts + experts;
        l.places = l.slots + prepared;
        l.actives = l.places + slots;
        return l;
    };
    record(&KernelProfile::other_ns, 1, 1, [a, lists, slots](int64_t, int64_t, int) {
        const ExpertLists l = lists();
        const auto exists = [&a](int32_t expert) { return expert >= 0 && expert < a.experts; };
        std::fill_n(l.counts, a.experts, 0);
        for (int64_t slot = 0; slot < slots; ++slot)
            if (exists(a.chosen[slot]))
                ++l.counts[a.chosen[slot]];
        int32_t next = 0;
        *l.actives = 0;
        for (int64_t expert = 0; expert < a.experts; ++expert) {
            l.starts[expert] = next;
            if (l.counts[expert] == 0)
                continue;
            l.active[(*l.actives)++] = static_cast<int32_t>(expert);
            next += (l.counts[expert] + row_group - 1) / row_group * row_group;
            l.counts[expert] = 0;
        }
        for (int64_t slot = 0; slot < slots; ++slot) {
            const int32_t expert = a.chosen[slot];
            l.places[slot] = exists(expert) ? l.starts[expert] + l.counts[expert]++ : -1;
            if (l.places[slot] >= 0)
                l.slots[l.places[slot]] = static_cast<int32_t>(slot);
        }
    });

    if (weight.has_packed)
        activations_.grow(static_cast<size_t>(prepared * (columns / 32)) * sizeof(ActivationBlock));
    if (weight.has_dense)
        float_rows_.grow(static_cast<size_t>(prepared * columns) * sizeof(float));
    const int64_t pieces = std::clamp<int64_t>(int64_t{pool_.threads()} * 8 / most_active, 1,
                                               (height + tile_rows - 1) / tile_rows);
    const int64_t piece = ((height + pieces - 1) / pieces + tile_rows - 1) / tile_rows * tile_rows;
    grow_scratch(static_cast<size_t>(std::max(columns, expert_rows * piece)) * sizeof(float));
    record(&KernelProfile::other_ns, slots, fair_chunk(slots),
           [this, a, lists, columns, height](int64_t first, int64_t last, int thread) {
               const ExpertLists l = lists();
               const LinearArguments& linear = a.linear;
               for (int64_t slot = first; slot < last; ++slot) {
                   const int64_t place = l.places[slot];
                   if (place < 0) {
                       std::fill_n(linear.out.row(slot), height, std::numeric_limits<float>::quiet_NaN());
                       continue;
                   }
                   const float* x = linear.x.row(a.per_slot ? slot : slot / a.top_k);
                   float* row = linear.weight->has_dense ? float_rows_.as<float>() + place * columns
                                                         : scratch<float>(thread);
                   if (linear.has_prologue()) {
                       kernels_.activate(linear.activation, x,
                                         linear.activation.gated ? x + columns : nullptr, row, columns);
                       x = row;
                   }
                   if (a.input_scale != nullptr || (linear.weight->has_dense && x != row)) {
                       kernels_.add(x, a.input_scale != nullptr ? a.input_scale[slot] : 1.0f, false, row,
                                    columns);
                       x = row;
                   }
                   if (linear.weight->has_packed)
                       kernels_.quantise(x,
                                         activations_.as<ActivationBlock>() +
                                             place / row_group * row_group * (columns / 32) +
                                             place % row_group,
                                         columns);
               }
           });
    record(&KernelProfile::matmul_ns, most_active * pieces, 1,
           [this, a, lists, columns, height, piece, pieces](int64_t first, int64_t last, int thread) {
               const ExpertLists l = lists();
               auto* results = scratch<float>(thread);
               for (int64_t item = first; item < last && item / pieces < *l.actives; ++item) {
                   const int64_t expert = l.active[item / pieces];
                   const int64_t begin = item % pieces * piece;
                   const int64_t end = std::min(begin + piece, height);
                   for (int64_t row = 0; row < l.counts[expert] && begin < end; row += expert_rows) {
                       const int64_t place = l.starts[expert] + row;
                       Product p;
                       p.weight = a.linear.weight;
                       p.first_row = expert * height + begin;
                       p.last_row = expert * height + end;
                       p.rows = std::min(expert_rows, l.counts[expert] - row);
                       p.blocks = activations_.as<ActivationBlock>() + place * (columns / 32);
                       p.floats = float_rows_.as<float>() + place * columns;
                       p.floats_stride = columns;
                       p.output.out = results;
                       p.output.stride = piece;
                       p.output.bias = a.linear.bias != nullptr ? a.linear.bias + p.first_row : nullptr;
                       multiply(p);
                       for (int64_t i = 0; i < p.rows; ++i)
                           std::copy_n(results + i * piece, end - begin,
                                       a.linear.out.row(l.slots[place + i]) + begin);
                   }
               }
           });
}

void Program::combine_experts(const CombineArguments& a) {
    grow_scratch(static_cast<size_t>(a.columns) * sizeof(float));
    record(&KernelProfile::other_ns, a.rows, fair_chunk(a.rows),
           [this, a](int64_t first, int64_t last, int thread) {
               auto* sum = scratch<float>(thread);
               for (int64_t row = first; row < last; ++row) {
                   for (int64_t j = 0; j < a.top_k; ++j) {
                       const int64_t slot = row * a.top_k + j;
                       kernels_.add(a.x.row(slot), a.weights != nullptr ? a.weights[slot] : 1.0f, j > 0, sum,
                                    a.columns);
                   }
                   kernels_.add(sum, a.scale, a.accumulate, a.out.row(row), a.columns);
               }
           });
}

} // namespace orrery::kernels::cpu
