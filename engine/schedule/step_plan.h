// What one step is to do: which sequences get how many tokens, and which blocks move before they are run.
#pragma once

#include "engine/cache/host_swap.h"
#include "engine/schedule/sequence.h"
#include "engine/step_report.h"
#include "kernels/backend.h"

#include <vector>

namespace orrery {

struct StepPlan {
    /// Tokens [first, first + tokens) of a sequence are to be computed.
    struct Part {
        Sequence* sequence = nullptr;
        int32_t first = 0;
        int32_t tokens = 0;
        /// Whether the sequence catches up, so that its next token can be drawn.
        bool catches_up() const { return first + tokens == sequence->length(); }
    };
    using Swap = BlockSwap;

    // In the order in which they are carried out: what leaves the device, before its blocks are written
    // again; what comes back; copies; then the parts, in one forward pass.
    std::vector<Swap> swap_outs;
    std::vector<Swap> swap_ins;
    std::vector<kernels::BlockCopy> copies;
    std::vector<Part> parts;

    int32_t tokens = 0;       ///< of all parts
    int32_t saved_tokens = 0; ///< of the sequences that joined: found in the cache
    std::vector<Preemption> preemptions;

    void clear() {
        swap_outs.clear();
        swap_ins.clear();
        copies.clear();
        parts.clear();
        preemptions.clear();
        tokens = 0;
        saved_tokens = 0;
    }
};

} // namespace orrery
