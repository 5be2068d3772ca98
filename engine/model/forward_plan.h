// One forward pass of a model, as a list of operations on a device: which, in what order, with what weights.
//
// A plan is made once for a model (plan_builder.h) and shared by all engines. What belongs to an engine is
// named by number in its operations and filled in by the decoder: scratch memory, caches, tables of
// rotations, and how many rows the pass has.
#pragma once

#include "engine/model/config.h"
#include "kernels/operations.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace orrery {

/// Scratch memory of a pass. A view of a plan's operation has one of these as its buffer's id, and as its
/// rows those for each row of the pass.
enum class Slot : uint32_t {
    none,
    residual,           ///< the residual stream
    normed,             ///< its norm, where several operations read it
    qkv,                ///< queries, keys and values of all heads, side by side
    attended,           ///< what attention brings
    added,              ///< what is normed before it is added to the stream
    feed_forward,       ///< [gate | up]
    router,             ///< one number for each expert
    experts,            ///< the experts chosen, int32
    expert_weights,     ///< their weights
    expert_hidden,      ///< [gate | up] of each chosen expert
    expert_out,         ///< what each of them brings
    shared_expert,      ///< what the shared expert brings, before its gate
    shared_expert_gate, ///< one number
    // For each row of output:
    output_residual, ///< the residual stream
    logits,
};
inline constexpr size_t slot_count = static_cast<size_t>(Slot::logits) + 1;
constexpr bool is_of_outputs(Slot slot) {
    return slot >= Slot::output_residual;
}

/// A weight as a pass reads it.
struct WeightUse {
    int64_t elements = 0;
    size_t bytes = 0; ///< on the device
    int experts = 1;  ///< matrices that it consists of
    int used = 1;     ///< of them by a row
};

struct ForwardPlan {
    using Step = std::variant<kernels::EmbedOp, kernels::NormOp, kernels::LinearOp, kernels::GateOp,
                              kernels::AddOp, kernels::SoftCapOp, kernels::RopeStoreOp, kernels::AttentionOp,
                              kernels::RouteOp, kernels::ExpertLinearOp, kernels::CombineExpertsOp>;

    // A cache's id is its number in ModelConfig::caches, counted from 1; a table's of rotations that in
    // ModelConfig::ropes. Weights and constants are those of the device.
    std::vector<Step> layers; ///< what every pass does
    // Where rows of logits are wanted, the residual stream of those rows is gathered, and the outputs follow,
    // whose rows are those of the output.
    kernels::View residual;
    kernels::View output_residual;
    std::vector<Step> outputs;

    std::array<size_t, slot_count> row_bytes = {}; ///< of each slot; 0: it is not used

    std::vector<WeightUse> layer_weights;
    std::vector<WeightUse> output_weights;
};

} // namespace orrery
