// How an engine is set up: what admission, scheduler and cache plan need to know of it.
#pragma once

#include "kernels/quant/kv_type.h"

#include <cstddef>
#include <cstdint>

namespace orrery {

enum class SchedulerPolicy : uint8_t {
    first_come, ///< in the order in which requests came
    priority,   ///< higher Request::priority first, but none waits for ever (see Scheduler)
};

enum class PreemptionMode : uint8_t {
    cheapest,  ///< whichever of the two the engine measures to be cheaper
    recompute, ///< give the blocks back, compute them again later
    swap,      ///< keep the blocks in host memory
};

struct EngineConfig {
    int context = 0;     ///< tokens of the longest sequence; 0: what the model was trained for
    int block_size = 16; ///< tokens per block
    int blocks = 0;      ///< blocks of the pool; 0: as many as fit `cache_bytes`
    size_t cache_bytes =
        0; ///< memory for keys and values; 0: a quarter of what is free, at least one full context
    kernels::KvType kv_type = kernels::KvType::f16;
    int max_step_tokens = 0; ///< token budget of one step; 0: what suits the device
    int max_sequences = 64;  ///< sequences that run at once
    int max_chunk = 0;       ///< tokens of one prompt in one step at the most; 0: the budget
    SchedulerPolicy policy = SchedulerPolicy::first_come;
    PreemptionMode preemption = PreemptionMode::cheapest;
    size_t swap_bytes = size_t(1) << 30; ///< host memory for swapped blocks
    bool prefix_cache = true;
    bool naive = false; ///< no cache: every pass computes every position again
    bool check = false; ///< prove the pool's integrity after every step (tests)
};

} // namespace orrery
