// The operations between two synchronisations, lowered to phases of the thread pool.
//
// A pass like the one before takes no memory from the system: what an operation records lies in an arena,
// batches and scratch memory are kept. To add an operation:
//
//   1. CpuDevice resolves its handles and checks its shapes (cpu_device_operations.cpp), and fills in a
//      struct of pointers and numbers;
//   2. a method of Program takes that struct and calls record() once for each phase: a phase is a number of
//      independent items, handed out to the threads, and begins when the phase before it has ended. The body
//      is a lambda that captures by value, and only what needs no destructor: the struct, numbers, pointers.
//      Lists go to arena_.put_all(). Memory that an item works in is asked for by grow_scratch() and fetched
//      by scratch(thread) when the item runs, for it may still move until then;
//   3. the loops over elements are a kernel of the table (kernel_table.h), compiled for each instruction set.
//
// Law 1: what a row gets may depend on the row alone. How rows are shared out among items is free; how
// numbers are added up is not.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/arena.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight.h"
#include "kernels/sampling/candidates.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orrery::kernels::cpu {

/// A view with its handle resolved: row r starts at data + r · stride.
struct Rows {
    float* data = nullptr;
    int64_t stride = 0;
    explicit operator bool() const { return data != nullptr; }
    float* row(int64_t index) const { return data + index * stride; }
};

/// LinearOp with its handles resolved.
struct LinearArguments {
    const CpuWeight* weight = nullptr;
    int64_t rows = 0;
    Rows x;
    Rows out;
    NormArguments norm;
    Activation activation;
    const float* bias = nullptr;
    float scale = 1.0f;
    bool accumulate = false;
    int64_t groups = 1;

    bool has_prologue() const {
        return norm.kind != NormKind::none || activation.kind != ActivationKind::none || activation.gated;
    }
};

/// NormOp with its handles resolved.
struct NormOpArguments {
    int64_t rows = 0;
    int64_t columns = 0;
    Rows x;
    Rows out;
    NormArguments norm;
    int64_t groups = 1;
    bool weight_shared = true;
    Rows add; ///< or none
    float add_scale = 1.0f;
    float scale = 1.0f;
    bool accumulate = false;
    Rows gate; ///< or none
    GateOrder gate_order = GateOrder::after;
};

/// GateOp with its handles resolved.
struct GateArguments {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t gate_columns = 0;
    Rows gate;
    Rows x;
    Rows out;
    Activation activation;
};

/// RouteOp with its handles resolved.
struct RouteArguments {
    int64_t rows = 0;
    int64_t experts = 0;
    Rows logits;
    int32_t* chosen = nullptr; ///< [rows, top_k]
    float* weights = nullptr;  ///< [rows, top_k]
    int top_k = 1;
    RouterScore score = RouterScore::softmax;
    const float* bias = nullptr; ///< [experts], or null
    int groups = 1;
    int top_groups = 1;
    GroupScore group_score = GroupScore::largest;
    bool normalize = false;
    float sum_floor = 0.0f;
    float scale = 1.0f;
};

/// ExpertLinearOp with its handles resolved.
struct ExpertArguments {
    LinearArguments linear; ///< its rows are those of `out`
    int64_t experts = 0;
    int64_t top_k = 1;
    const int32_t* chosen = nullptr; ///< [rows of out]
    bool per_slot = false;
    const float* input_scale = nullptr; ///< [rows of out], or null
};

/// CombineExpertsOp with its handles resolved.
struct CombineArguments {
    int64_t rows = 0;
    int64_t columns = 0;
    Rows x;
    Rows out;
    const float* weights = nullptr; ///< [rows, top_k], or null
    int64_t top_k = 1;
    float scale = 1.0f;
    bool accumulate = false;
};

/// RopeStoreOp with its handles resolved.
struct RopeStoreArguments {
    KvStore* store = nullptr;
    int layer = 0;
    int layout = 0;
    int heads = 0;
    Rows q;
    Rows k; ///< none: nothing is stored
    Rows v;
    NormArguments q_norm, k_norm, v_norm;
    bool norm_after_rope = false;
    const float* rope_table = nullptr;
    Rope rope;
    const float* query_scale = nullptr; ///< [positions], or null
};

/// AttentionOp with its handles resolved.
struct AttentionArguments {
    KvStore* store = nullptr;
    int layer = 0;
    int layout = 0;
    int heads = 0;
    float scale = 0.0f;
    float soft_cap = 0.0f;
    int window = 0;
    bool chunked = false;
    const float* sinks = nullptr; ///< [heads], or null
    const float* alibi = nullptr; ///< [heads], or null
    Rows q;
    Rows out;

    /// The first position that a row at `position` sees.
    int64_t first_seen(int64_t position) const {
        if (window <= 0)
            return 0;
        return chunked ? position / window * window : std::max<int64_t>(position - window + 1, 0);
    }
};

/// EmbedOp with its handles resolved.
struct EmbedArguments {
    const CpuWeight* table = nullptr;
    const CpuWeight* positions = nullptr; ///< or none
    int position_offset = 0;
    float scale = 1.0f;
    Rows out;
};

/// SampleOp with its handles resolved.
struct SampleArguments {
    Rows logits;
    int64_t vocabulary = 0;
    std::span<const SampleQuery> queries; ///< copied when the operation is recorded, as are the changes
    std::span<const LogitChange> changes;
    SampleResult* results = nullptr;
    TopToken* top = nullptr; ///< or none, where max_logprobs is 0
    int max_logprobs = 0;
};

/// Rows of activations times some rows of a weight. The activations are those that the weight's slices need:
/// quantised, in float32, or both.
struct Product {
    const CpuWeight* weight = nullptr;
    int64_t first_row = 0; ///< of the weight
    int64_t last_row = 0;
    int64_t rows = 0;                        ///< of activations
    const ActivationBlock* blocks = nullptr; ///< of the first row, the first of a row group
    const float* floats = nullptr;
    int64_t floats_stride = 0;
    Output output; ///< of the first activation row and the weight's row first_row
};

/// Records operations, and runs them all in run(). Pointers that are handed in stay valid until then.
class Program {
public:
    Program(const KernelTable& kernels, ThreadPool& pool);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void begin(const ForwardBatch& batch);
    int64_t rows() const { return static_cast<int64_t>(batch_->ids.size()); }
    int64_t positions_end() const { return batch_->positions_end; }
    int64_t output_rows() const { return static_cast<int64_t>(batch_->output_rows.size()); }

    void embed(const EmbedArguments& arguments);
    void norm(const NormOpArguments& arguments);
    void linear(const LinearArguments& arguments);
    void gate(const GateArguments& arguments);
    void add(int64_t rows, int64_t columns, Rows x, float scale, bool accumulate, Rows out);
    void soft_cap(int64_t rows, int64_t columns, Rows x, float scale, float cap);
    void route(const RouteArguments& arguments);
    void expert_linear(const ExpertArguments& arguments);
    void combine_experts(const CombineArguments& arguments);
    void rope_store(const RopeStoreArguments& arguments);
    void attention(const AttentionArguments& arguments);
    void gather(Rows x, Rows out, int64_t columns);
    void sample(const SampleArguments& arguments);
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
    struct AttentionTile;
    struct AttentionPlan;
    struct Batch {
        std::vector<int32_t> ids, positions, output_rows;
        std::vector<Span> spans;
        std::vector<int32_t> padding; ///< rows that belong to no span
        std::vector<Layout> layouts;  ///< of which layout_count count
        size_t layout_count = 0;
        std::vector<std::unique_ptr<AttentionPlan>> plans; ///< of which plan_count count
        size_t plan_count = 0;
        int64_t positions_end = 0; ///< largest position + 1

        Batch();
        ~Batch();
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
        CandidateSet candidates;
    };
    using Family = uint64_t KernelProfile::*;

    struct LinearJob;
    struct ExpertLists;
    struct AttentionJob;
    struct Partial;

    /// Records a phase: body(first, last, thread) for `items` items, `chunk` of them at once.
    template <class Body>
    void record(Family family, int64_t items, int64_t chunk, const Body& body) {
        if (items <= 0)
            return;
        families_.resize(phases_.size()); // where memory ran out in between, one too many is left
        families_.push_back(family);
        phases_.push_back(make_phase(*arena_.put(Body(body)), items, chunk));
    }
    template <class T>
    T* scratch(int thread) const {
        return threads_[static_cast<size_t>(thread)].scratch.template as<T>();
    }
    void grow_scratch(size_t bytes);
    const Layout& layout(int index) const;
    int64_t fair_chunk(int64_t items) const;

    /// The prologue of a row, written to `floats` or, where that is null, to `row`, and its quantisation, as
    /// row `slot` of `blocks` (each null where no part of the weight needs it).
    void prepare_row(const LinearArguments& a, const float* x, int64_t slot, ActivationBlock* blocks,
                     float* floats, float* row) const;
    /// All rows [first, last) of a product without groups; both multiples of 8 or the end.
    void prepare_rows(const LinearArguments& a, int64_t first, int64_t last, ActivationBlock* blocks,
                      float* floats, float* row) const;
    /// Any rows of the weight, those that begin or end within a tile too.
    void multiply(const Product& product) const;
    void grouped_linear(const LinearArguments& a);
    void run_linear(const LinearJob& job, int64_t first, int64_t last, int thread);
    const AttentionPlan& attention_plan(const AttentionArguments& arguments);
    void run_attention(const AttentionJob& job, int64_t item, int thread);
    void combine_parts(const AttentionJob& job, int64_t tile, int thread);
    void add_part(const AttentionJob& job, const AttentionTile& tile, int query, int part,
                  const Partial& state, const Partial& added) const;
    void finish_query(const AttentionJob& job, const AttentionTile& tile, int query, const Partial& state,
                      float* value_scratch) const;

    const KernelTable& kernels_;
    ThreadPool& pool_;
    std::vector<std::unique_ptr<Batch>> batches_; ///< of which batch_count_ are in use
    size_t batch_count_ = 1;
    Batch* batch_; ///< the last one of them
    Arena arena_;
    std::vector<Phase> phases_;
    std::vector<Family> families_;
    std::vector<Thread> threads_;
    Scratch activations_; ///< rows that a phase of its own prepared for a linear operation, quantised
    Scratch float_rows_;  ///< the same in float32
    Scratch expert_lists_;
    Scratch partials_; ///< parts of attention that are yet to be combined
    uint64_t serial_ = 0;
    uint64_t runs_ = 0; ///< how many programs have run
    bool profiling_ = false;
    KernelProfile profile_;
};

} // namespace orrery::kernels::cpu
