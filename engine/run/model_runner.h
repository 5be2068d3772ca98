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
    /// `caches` as cache_specs() gives them. Throws OutOfMemory where they do not fit the device.
    ModelRunner(Decoder& decoder, kernels::Backend& backend, std::span<const kernels::KvCacheSpec> caches,
                int max_positions);

    /// Makes room for passes of so many rows and rows of logits, where there is less. Throws OutOfMemory;
    /// then it is as large as before.
    void reserve(int max_rows, int max_outputs);
    int max_rows() const { return max_rows_; }
    int max_outputs() const { return max_outputs_; }

    /// Moves blocks and lays out the pass. Parts that catch up get the logits of their last row; with
    /// `all_logits`, every row of every part.
    void prepare(const StepPlan& plan, const HostSwap& swap, bool all_logits = false);

    /// Runs the pass and waits for it. Its logits stay on the device until the next pass.
    void run();
    /// Rows of logits that the last pass made.
    size_t outputs() const { return output_rows_.size(); }
    /// All of them, [outputs, vocab].
    void read_logits(std::span<float> logits);
    /// One of them, [vocab], valid until the next call.
    std::span<const float> read_logits(int row);

    /// Draws tokens on the device, from the logits of the last pass. The answers are valid until the next
    /// call; `top` is [queries, max_logprobs].
    struct Drawn {
        std::span<const kernels::SampleResult> results;
        std::span<const kernels::TopToken> top;
        size_t max_logprobs = 0;

        std::span<const kernels::TopToken> top_of(size_t query) const {
            return top.subspan(query * max_logprobs, max_logprobs);
        }
    };
    Drawn sample(std::span<const kernels::SampleQuery> queries,
                 std::span<const kernels::LogitChange> changes);

    /// After a failure: waits for what was queued before it, so that nothing of it happens later.
    void drain() noexcept;

    /// Bytes of one block in all caches.
    size_t block_bytes() const { return caches_.block_bytes; }
    /// What copying a block to the host and back costs, from all copies so far.
    double ns_per_swapped_block() const;

private:
    /// Keys and values on the device, for as long as this lives.
    struct Caches {
        Caches(kernels::Backend& its_backend, std::span<const kernels::KvCacheSpec> specs);
        ~Caches();
        Caches(const Caches&) = delete;
        Caches& operator=(const Caches&) = delete;

        kernels::Backend& backend;
        std::vector<kernels::KvCache> handles;
        std::vector<size_t> offsets; ///< of each cache's part in the host's copy of a block, in bytes
        size_t block_bytes = 0;
    };

    /// Memory of the device that is given back at the end, and grows when it is too small.
    struct Memory {
        explicit Memory(kernels::Backend& its_backend) : backend(its_backend) {}
        ~Memory() {
            if (handle)
                backend.release(handle);
        }
        Memory(const Memory&) = delete;
        Memory& operator=(const Memory&) = delete;
        kernels::Buffer at_least(size_t wanted);

        kernels::Backend& backend;
        kernels::Buffer handle;
        size_t bytes = 0;
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
    Caches caches_;

    int64_t copied_ns_ = 0; ///< time spent in copies between device and host, and how many
    int64_t copies_ = 0;

    // The batch, kept so that a step allocates nothing.
    std::vector<int32_t> ids_, positions_, slots_, table_offsets_, block_tables_, output_rows_;
    std::vector<kernels::Span> spans_;
    std::vector<kernels::BlockTransfer> transfers_;
    std::vector<float> row_; ///< of logits

    // What was drawn, on the device and here.
    Memory device_results_;
    Memory device_top_;
    std::vector<kernels::SampleResult> results_;
    std::vector<kernels::TopToken> top_;
};

} // namespace orrery
