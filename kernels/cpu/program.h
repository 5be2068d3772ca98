// The operations between two synchronisations, lowered to phases of the thread pool.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orrery::kernels::cpu {

/// A view with its handle resolved: row r starts at data + r · stride.
struct Rows {
    float* data = nullptr;
    int64_t stride = 0;
    float* row(int64_t index) const { return data + index * stride; }
};

/// LinearOp with its handles resolved.
struct LinearArguments {
    const CpuWeight* weight = nullptr;
    int64_t rows = 0;
    Rows x;
    Rows out;
    Norm norm;
    const float* norm_weight = nullptr;
    Activation activation;
    const float* bias = nullptr;
    bool accumulate = false;

    bool has_prologue() const {
        return norm.kind != NormKind::none || activation.kind != ActivationKind::none;
    }
};

/// RopeStoreOp with its handles resolved.
struct RopeStoreArguments {
    KvStore* store = nullptr;
    int layer = 0;
    int layout = 0;
    int heads = 0;
    Rows q;
    Rows k;
    Rows v;
    const float* rope_table = nullptr;
    Rope rope;
};

/// AttentionOp with its handles resolved.
struct AttentionArguments {
    KvStore* store = nullptr;
    int layer = 0;
    int layout = 0;
    int heads = 0;
    float scale = 0.0f;
    Rows q;
    Rows out;
};

/// Records operations, and runs them all in run(). Pointers that are handed in stay valid until then.
class Program {
public:
    Program(const KernelTable& kernels, ThreadPool& pool);

    void begin(const ForwardBatch& batch);
    int64_t rows() const { return static_cast<int64_t>(batch_->ids.size()); }
    int64_t positions_end() const { return batch_->positions_end; }
    int64_t output_rows() const { return static_cast<int64_t>(batch_->output_rows.size()); }

    void embed(const CpuWeight& table, Rows out, float scale);
    void linear(const LinearArguments& arguments);
    void rope_store(const RopeStoreArguments& arguments);
    void attention(const AttentionArguments& arguments);
    void gather(Rows x, Rows out, int64_t columns);
    void copy_blocks(KvStore& store, std::span<const BlockCopy> copies);
    void copy_blocks_out(KvStore& store, std::span<const BlockTransfer> transfers, std::byte* host);
    void copy_blocks_in(KvStore& store, std::span<const BlockTransfer> transfers, const std::byte* host);

    /// Names what has been recorded so far.
    Fence fence() const { return {runs_ + (phases_.empty() ? 0 : 1)}; }
    bool has_passed(Fence fence) const { return fence.value <= runs_; }

    /// Runs what was recorded and forgets it.
    void run();

    void set_profiling(bool on) { profiling_ = on; }
    KernelProfile take_profile();

private:
    struct Layout {
        std::vector<int32_t> slots, table_offsets, block_tables;
    };
    struct Batch {
        std::vector<int32_t> ids, positions, output_rows;
        std::vector<Span> spans;
        std::vector<Layout> layouts;
        int64_t positions_end = 0; ///< largest position + 1
    };
    /// Memory that grows while operations are recorded and is used while they run.
    struct Scratch {
        Memory memory;
        size_t bytes = 0;
        void grow(size_t wanted);
        template <class T>
        T* as(size_t offset_bytes = 0) const {
            return reinterpret_cast<T*>(memory.get() + offset_bytes);
        }
    };
    struct Thread {
        Scratch scratch;
        uint64_t prepared = 0; ///< the linear operation whose prologue lies in `scratch`
    };
    using Family = uint64_t KernelProfile::*;

    struct LinearJob;
    struct AttentionJob;

    void record(Family family, int64_t items, int64_t chunk, std::function<void(int64_t, int64_t, int)> body);
    void grow_scratch(size_t bytes);
    const Layout& layout(int index) const;
    int64_t fair_chunk(int64_t items) const;

    /// Prologue and quantisation of rows [first, last), both multiples of 8 or the end, into `blocks` and
    /// `floats` (each null where no part of the weight needs it). `row` is scratch for one row.
    void prepare_rows(const LinearArguments& a, int64_t first, int64_t last, ActivationBlock* blocks,
                      float* floats, float* row) const;
    void run_linear(const LinearJob& job, int64_t first, int64_t last, int thread);
    void run_attention(const AttentionJob& job, int64_t item, int thread);
    void finish_attention(const AttentionJob& job, int64_t tile);

    const KernelTable& kernels_;
    ThreadPool& pool_;
    std::shared_ptr<const Batch> batch_;
    std::vector<Phase> phases_;
    std::vector<Family> families_;
    std::vector<Thread> threads_;
    Scratch activations_; ///< rows that a phase of its own prepared for a linear operation, quantised
    Scratch float_rows_;  ///< the same in float32
    Scratch partials_;    ///< parts of attention that are yet to be combined
    uint64_t serial_ = 0;
    uint64_t runs_ = 0; ///< how many programs have run
    bool profiling_ = false;
    KernelProfile profile_;
};

} // namespace orrery::kernels::cpu
