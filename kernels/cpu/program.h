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

/// LinearOp with its handles resolved.
struct LinearArguments {
    const CpuWeight* weight = nullptr;
    int64_t rows = 0;
    const float* x = nullptr;
    float* out = nullptr;
    Prologue prologue = Prologue::none;
    const float* norm = nullptr;
    float eps = 0.0f;
    const float* bias = nullptr;
    bool accumulate = false;
};

/// Records operations, and runs them all in run(). Pointers that are handed in stay valid until then.
class Program {
public:
    Program(const KernelTable& kernels, ThreadPool& pool);

    void begin(const ForwardBatch& batch);
    int64_t rows() const { return static_cast<int64_t>(batch_->ids.size()); }
    int64_t positions_end() const { return batch_->positions_end; }
    int64_t output_rows() const { return static_cast<int64_t>(batch_->output_rows.size()); }

    void embed(const CpuWeight& table, float* out, float scale);
    void linear(const LinearArguments& arguments);
    void rope_store(const RopeStoreOp& op, KvStore& store, float* qkv, const float* rope);
    void attention(const AttentionOp& op, KvStore& store, const float* qkv, float* out);
    void gather(const float* x, float* out, int64_t columns);
    void copy_blocks(KvStore& store, std::span<const BlockCopy> copies);

    /// Runs what was recorded and forgets it.
    void run();

    void set_profiling(bool on) { profiling_ = on; }
    KernelProfile take_profile();

private:
    struct Batch {
        std::vector<int32_t> ids, positions, slots, block_tables, output_rows;
        std::vector<Span> spans;
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
    bool profiling_ = false;
    KernelProfile profile_;
};

} // namespace orrery::kernels::cpu
