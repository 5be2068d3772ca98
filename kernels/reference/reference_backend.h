// The reference back end: plain loops, no cleverness. It is the truth that every faster back end is held
// against, and it keeps to the letter of the Backend interface so that code that breaks on a device breaks
// here first:
//
// - Handles name entries of a private table and are never used twice, so one that has been released names
//   nothing, and using it is an Error.
// - Operations are checked when they are called (shapes, sizes, overlaps, ids, slots: an Error names the
//   operation and the value) but run only in synchronize(), wait(), download() or whatever else must wait.
// - With `poison`, memory starts out as NaNs instead of zeros, in floats and in scales alike: what reads
//   before it writes is seen in the result.
#pragma once

#include "kernels/backend.h"
#include "kernels/reference/operations.h"
#include "kernels/reference/rows.h"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace orrery::kernels {

struct ReferenceOptions {
    bool poison = false;
    size_t memory_bytes = 0; ///< how much the device pretends to have; 0: what the machine gives
    std::string why = {};    ///< for DeviceInfo::why
};

class ReferenceBackend final : public Backend {
public:
    explicit ReferenceBackend(const ReferenceOptions& options = {});
    ~ReferenceBackend() override;

    const DeviceInfo& device() const override { return info_; }
    std::unique_ptr<Backend> share() override;

    Buffer allocate(size_t bytes) override;
    void release(Buffer buffer) override;
    void upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) override;
    void download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) override;
    HostMemory allocate_host(size_t bytes) override;
    void release(const HostMemory& memory) override;

    Weight load_weight(std::span<const WeightPart> parts) override;
    void release(Weight weight) override;
    size_t weight_bytes(Weight weight) const override;

    KvCache create_kv_cache(const KvCacheSpec& spec) override;
    void release(KvCache cache) override;
    size_t kv_block_bytes(const KvCacheSpec& spec) const override;
    void copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) override;
    void copy_kv_blocks_out(KvCache cache, std::span<const BlockTransfer> transfers,
                            const HostMemory& to) override;
    void copy_kv_blocks_in(KvCache cache, std::span<const BlockTransfer> transfers,
                           const HostMemory& from) override;

    StateCache create_state_cache(const StateCacheSpec& spec) override;
    void release(StateCache cache) override;
    size_t state_slot_bytes(const StateCacheSpec& spec) const override;
    void copy_state_slots(StateCache cache, std::span<const BlockCopy> copies) override;
    void copy_state_slots_out(StateCache cache, std::span<const BlockTransfer> transfers,
                              const HostMemory& to) override;
    void copy_state_slots_in(StateCache cache, std::span<const BlockTransfer> transfers,
                             const HostMemory& from) override;

    void begin(const ForwardBatch& batch) override;
    void embed(const EmbedOp& op) override;
    void norm(const NormOp& op) override;
    void linear(const LinearOp& op) override;
    void gate(const GateOp& op) override;
    void add(const AddOp& op) override;
    void soft_cap(const SoftCapOp& op) override;
    void gather(const GatherOp& op) override;
    void rope_store(const RopeStoreOp& op) override;
    void attention(const AttentionOp& op) override;
    void route(const RouteOp& op) override;
    void expert_linear(const ExpertLinearOp& op) override;
    void combine_experts(const CombineExpertsOp& op) override;
    void convolve(const ConvolveOp& op) override;
    void ssm_scan(const SsmScanOp& op) override;
    void delta_rule(const DeltaRuleOp& op) override;
    void sample(const SampleOp& op) override;

    Fence fence() override;
    void wait(Fence fence) override;
    void synchronize() override;

    void set_profiling(bool on) override;
    KernelProfile take_profile() override;

private:
    struct Free {
        void operator()(std::byte* bytes) const { std::free(bytes); }
    };
    struct Memory {
        std::unique_ptr<std::byte, Free> bytes;
        size_t size = 0;
    };
    struct StackedWeight {
        std::vector<WeightPart> parts;
        int64_t rows = 0;
        int64_t columns = 0;
        size_t bytes = 0;
        /// Writes the `columns` floats of one row.
        void decode_row(int64_t row, float* out) const;
    };
    /// A buffer or a weight that may also be known to a back end made by share().
    template <typename Content>
    struct Shared {
        std::shared_ptr<Content> content;
        bool borrowed = false; ///< it belongs to the back end that share() was called on
    };
    /// What back ends on one device have in common.
    struct Device {
        std::atomic<uint32_t> last_id{0};
        std::atomic<size_t> used_bytes{0};
    };
    struct Cache;
    struct State;
    /// A ForwardBatch with arrays of its own, shared by the operations that were queued under it.
    struct Batch;
    struct Command {
        uint64_t KernelProfile::*family;
        std::function<void()> run;
    };

    uint32_t new_id() { return ++shared_->last_id; }
    Memory take_memory(size_t bytes, const char* what);
    void give_back(const Memory& memory) { shared_->used_bytes -= memory.size; }

    // What handles and views name. Each throws Error where that is not there or too small; `what` is the
    // operation and its part, such as "linear's x".
    Memory& memory_of(Buffer buffer) const;
    Memory& own_memory_of(Buffer buffer, const char* what) const;
    std::byte* bytes_of(Buffer buffer, size_t bytes, const std::string& what) const;
    std::span<float> floats(Buffer buffer, size_t count, const std::string& what) const;
    /// Empty where there is no buffer.
    std::span<float> optional_floats(Buffer buffer, size_t count, const std::string& what) const;
    reference::Rows rows_of(const View& view, int64_t rows, int64_t columns, const std::string& what) const;
    /// As rows_of(), of memory that may be written.
    reference::Rows rows_to(const View& view, int64_t rows, int64_t columns, const std::string& what) const;
    reference::NormValues values_of(const Norm& norm, int64_t columns, const std::string& what) const;
    const StackedWeight& weight_of(Weight weight) const;
    Cache& cache_of(KvCache cache) const;
    State& state_of(StateCache cache) const;
    std::byte* host_bytes(const HostMemory& memory, size_t offset, size_t bytes) const;
    std::shared_ptr<const Batch> current_batch(const char* operation) const;

    // Recurrences. `state_of` gives what a slot holds of the state that the operation works on.
    using StateOf = std::function<std::span<float>(int32_t slot)>;
    static void check_states(const Batch& batch, const State& state, int layer, const char* operation);
    /// Calls step(row, state) for the tokens of all spans and takes the snapshots; padding rows get zeros.
    static void for_each_token(const Batch& batch, const StateOf& state_of,
                               const std::function<void(size_t, std::span<float>)>& step,
                               const reference::Rows& out);

    void enqueue(uint64_t KernelProfile::*family, std::function<void()> run);
    void run_until(uint64_t queued);

    ReferenceOptions options_;
    DeviceInfo info_;
    std::shared_ptr<Device> shared_ = std::make_shared<Device>();
    std::unordered_map<uint32_t, Shared<Memory>> buffers_;
    std::unordered_map<uint32_t, Shared<const StackedWeight>> weights_;
    std::unordered_map<uint32_t, Memory> host_memories_;
    std::unordered_map<uint32_t, std::unique_ptr<Cache>> caches_;
    std::unordered_map<uint32_t, std::unique_ptr<State>> states_;
    std::shared_ptr<const Batch> batch_;
    std::deque<Command> queue_;
    uint64_t queued_ = 0; ///< commands so far; all but those in queue_ have run
    bool profiling_ = false;
    KernelProfile profile_;
};

} // namespace orrery::kernels
