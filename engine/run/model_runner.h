// Carries out a step's plan on the device: blocks that move, then one forward pass over all parts.
#pragma once

#include "engine/cache/host_swap.h"
#include "engine/model/decoder.h"
#include "engine/schedule/step_plan.h"

#include <span>
#include <vector>

namespace orrery {

class ModelRunner {
public:
    /// Throws OutOfMemory where the cache does not fit the device.
    ModelRunner(Decoder& decoder, kernels::Backend& backend, const kernels::KvCacheSpec& spec,
                int max_positions);

    /// Makes room for passes of so many rows and rows of logits, where there is less. Throws OutOfMemory;
    /// then it is as large as before.
    void reserve(int max_rows, int max_outputs);
    int max_rows() const { return max_rows_; }
    int max_outputs() const { return max_outputs_; }

    /// Moves blocks and lays out the pass. Parts that catch up get the logits of their last row; with
    /// `all_logits`, every row of every part.
    void prepare(const StepPlan& plan, const HostSwap& swap, bool all_logits = false);

    /// Runs the pass and waits for it. Returns the logits, [output rows, vocab], valid until the next pass.
    std::span<const float> run();

    /// After a failure: waits for what was queued before it, so that nothing of it happens later.
    void drain() noexcept;

    size_t block_bytes() const { return block_bytes_; }
    /// What copying a block to the host and back costs, from all copies so far.
    double ns_per_swapped_block() const;

private:
    /// Keys and values on the device, for as long as this lives.
    struct Cache {
        Cache(kernels::Backend& its_backend, const kernels::KvCacheSpec& spec)
            : backend(its_backend), handle(its_backend.create_kv_cache(spec)) {}
        ~Cache() { backend.release(handle); }
        Cache(const Cache&) = delete;
        Cache& operator=(const Cache&) = delete;

        kernels::Backend& backend;
        kernels::KvCache handle;
    };

    void copy_out(std::span<const StepPlan::Swap> swaps, const HostSwap& swap);
    void copy_in(std::span<const StepPlan::Swap> swaps, const HostSwap& swap);
    template <typename Copy>
    void transfer(std::span<const StepPlan::Swap> swaps, const HostSwap& swap, const Copy& copy);

    Decoder& decoder_;
    kernels::Backend& backend_;
    int block_size_;
    int max_positions_;
    int max_rows_ = 0;
    int max_outputs_ = 0;
    size_t block_bytes_;
    Cache cache_;

    int64_t copied_ns_ = 0; ///< time spent in copies between device and host, and how many
    int64_t copies_ = 0;

    // The batch, kept so that a step allocates nothing.
    std::vector<int32_t> ids_, positions_, slots_, table_offsets_, block_tables_, output_rows_;
    std::vector<kernels::Span> spans_;
    std::vector<kernels::BlockTransfer> transfers_;
    std::vector<float> logits_;
};

} // namespace orrery
