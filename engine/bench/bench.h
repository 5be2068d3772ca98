// The benchmark behind `orrery-cli bench`: workloads run through a real engine, and every figure beside what
// the machine could do.
#pragma once

#include "engine/bench/machine_limits.h"
#include "engine/bench/workload.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

struct BenchOptions {
    std::vector<WorkloadKind> workloads{all_workloads().begin(), all_workloads().end()};
    WorkloadSizes sizes;
    EngineConfig engine; ///< context and blocks are the workloads'
    uint64_t seed = 1;   ///< of the prompts
    bool limits = true;  ///< measure the machine too; of no use where the model runs on a GPU
    /// Called before each workload with its name.
    std::function<void(const char* workload)> progress;
    const std::atomic<bool>* cancel = nullptr; ///< the benchmark ends with Cancelled once this is true
};

/// Milliseconds, by nearest rank; all zero where nothing was measured.
struct Percentiles {
    double p50 = 0.0;
    double p90 = 0.0;
    double p99 = 0.0;
};

/// What the machine can do, measured beside a result with as many threads.
struct MachineLimits {
    int threads = 0;
    size_t working_set_bytes = 0;  ///< what an average step of the result reads
    double read_bytes_per_s = 0.0; ///< of a working set of that size
    ComputePeak fp32;
    ComputePeak int8;
};

struct BenchResult {
    std::string workload;
    std::string variant; ///< such as "one stream, cold"; may be empty
    int repeats = 0;

    // Counts, over all repeats.
    int requests = 0;
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0; ///< of the prompts, found in the cache
    int64_t generated_tokens = 0;
    int64_t steps = 0;
    int preemptions = 0;
    int max_running = 0; ///< most requests in one step
    int max_waiting = 0; ///< swapped ones included

    double wall_s = 0.0; ///< of all repeats
    /// The median of the repeats. decode: new tokens after the first; prefill: prompt tokens until the first
    /// new one; otherwise new tokens, the time for the prompts included.
    double tokens_per_s = 0.0;
    /// New tokens in the steps that read no prompt, by the time of these steps: what one stream and many are
    /// compared by. 0 where every step reads a prompt.
    double decode_tokens_per_s = 0.0;
    Percentiles ttft_ms; ///< from a request's arrival to its first token. mixed: the long prompt's;
                         ///< fairness: the questions', where there are any
    Percentiles itl_ms; ///< between two tokens of a request. mixed: the chats', while the long prompt is read
    double long_prompt_ms = 0.0; ///< fairness: from the long prompt's arrival to its last token; else 0
    double cache_hit_rate = 0.0; ///< cached_tokens / prompt_tokens

    // The cache's blocks, after each step.
    int blocks = 0;      ///< all
    int peak_blocks = 0; ///< the most that requests held at once
    int block_size = 0;  ///< tokens per block
    /// The share of the held blocks' slots that no token had been written to; each step counts by the blocks
    /// that were held after it.
    double kv_waste = 0.0;

    /// Of weights and cache, by the model's own arithmetic; over the steps that read no prompt, where there
    /// are any.
    double read_bytes_per_s = 0.0;
    /// Of the weight matrices alone, attention left out; over the steps that read prompts.
    double ops_per_s = 0.0;

    std::optional<MachineLimits> limits;
    double bandwidth_share = 0.0; ///< read_bytes_per_s / limits->read_bytes_per_s
    double int8_share = 0.0;      ///< ops_per_s / limits->int8.ops_per_s
};

/// Runs the workloads one after the other, each on an engine of its own. Throws Error where a request does
/// not end as it should, OutOfMemory where a workload's cache does not fit, Cancelled.
std::vector<BenchResult> run_benchmark(std::shared_ptr<Model> model, const BenchOptions& options);

/// {results: [{workload, tokens_per_s, …}]}
nlohmann::json bench_to_json(const std::vector<BenchResult>& results);
/// The same for people: a table, one line for each result, the machine's limits beside the figures.
std::string bench_to_table(const std::vector<BenchResult>& results);

} // namespace orrery
