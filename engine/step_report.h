// What happened in one step of the engine, measured by the step itself. All that the workbench draws
// comes from here; a widget never recomputes or guesses a number.
#pragma once

#include "engine/request.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {

/// What a sequence did in a step.
enum class RowKind : uint8_t { prefill, decode, recompute, speculative };

/// One sequence's part of a step.
struct ReportRow {
    RequestId request = 0;
    int32_t sample = 0;
    RowKind kind = RowKind::decode;
    int32_t tokens = 0;  ///< tokens computed for it in this step
    int32_t context = 0; ///< tokens with keys and values after the step
    int32_t prompt_tokens =
        0;              ///< length of its prompt: `context` of `prompt_tokens` is the progress of a prefill
    int32_t blocks = 0; ///< blocks in its table
};

enum class BlockEventKind : uint8_t {
    allocated,   ///< taken for a sequence; its old content is gone
    filled,      ///< its last slot was written: it can be found as a prefix
    shared,      ///< another sequence began to use it, or one that was swapped out uses it again
    freed,       ///< one user fewer; with none left it is cached (if filled) or free
    evicted,     ///< its cached content was given up for another use
    swapped_out, ///< its content went to host memory, before another use
    swapped_in,  ///< filled from host memory
};

struct BlockEvent {
    BlockEventKind kind = BlockEventKind::allocated;
    int32_t block = 0;
    RequestId request = 0;
};

enum class PreemptionKind : uint8_t { recompute, swap };

struct Preemption {
    RequestId victim = 0;
    RequestId beneficiary = 0; ///< the request that needed the blocks
    PreemptionKind kind = PreemptionKind::recompute;
    int32_t blocks = 0; ///< blocks that it gave back
};

struct StepReport {
    uint64_t number = 0;  ///< counts up from 1; ends without a step (Engine::end_due) count too
    int64_t start_ns = 0; ///< since the engine was made
    int64_t duration_ns = 0;

    // Where the time went, nanoseconds. They add up to the duration but for the clock's own cost.
    int64_t schedule_ns = 0;
    int64_t prepare_ns = 0;
    int64_t forward_ns = 0;
    int64_t sample_ns = 0;
    int64_t publish_ns = 0;

    // Within forward_ns, while profiling is on (otherwise all zero).
    int64_t attention_ns = 0;
    int64_t matmul_ns = 0;
    int64_t norm_ns = 0;
    int64_t other_ns = 0;

    // Tokens of this step by kind.
    int32_t prefill_tokens = 0;
    int32_t decode_tokens = 0;
    int32_t speculative_tokens = 0;
    int32_t recomputed_tokens = 0; ///< computed before, lost to a preemption, computed again
    int32_t saved_tokens = 0;      ///< not computed, because a prefix was found in the cache
    int32_t generated_tokens = 0;  ///< new tokens that were sampled

    // Queues after the step: every sample that has not ended stands in one of them.
    int32_t running = 0;
    int32_t waiting = 0; ///< those included that begin once their request's first sample has read the prompt
    int32_t swapped = 0;

    // Blocks after the step: free + cached + held = total.
    int32_t blocks_total = 0;
    int32_t blocks_free = 0;    ///< without content
    int32_t blocks_cached = 0;  ///< in no table, but their content can be found as a prefix
    int32_t blocks_held = 0;    ///< in the table of at least one sequence
    int32_t blocks_swapped = 0; ///< kept for swapped sequences: in host memory, or still on the device
    /// Slots of held blocks that no token has been written to; of a shared block they count once.
    int32_t slots_unused = 0;

    // Bytes read by the model's own arithmetic, for the share of the machine's bandwidth.
    int64_t weight_bytes = 0;
    int64_t cache_bytes = 0;

    std::vector<ReportRow> rows;
    std::vector<BlockEvent> block_events;
    std::vector<Preemption> preemptions;
    uint32_t block_events_dropped = 0; ///< events past the report's limit

    /// Everything as in a new report, but for the memory of the lists, which stays.
    void reset() {
        StepReport fresh;
        fresh.rows.swap(rows);
        fresh.block_events.swap(block_events);
        fresh.preemptions.swap(preemptions);
        fresh.rows.clear();
        fresh.block_events.clear();
        fresh.preemptions.clear();
        *this = std::move(fresh);
    }
};

} // namespace orrery
