// CpuBackend: the objects behind the handles, and the checks of what an operation is given. What an operation
// does is in Program.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/handle_table.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/program.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>

namespace orrery::kernels::cpu {

class CpuBackend final : public Backend {
public:
    CpuBackend(const KernelTable& kernels, int threads, std::string why);
    /// Shares the threads, weights and buffers of `other`.
    explicit CpuBackend(const CpuBackend& other);

    const DeviceInfo& device() const override { return info_; }
    std::unique_ptr<Backend> share() override;

    // cpu_device.cpp

    Buffer allocate(size_t bytes) override;
    void release(Buffer buffer) override;
    void upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) override;
    void download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) override;
    HostMemory allocate_host(size_t bytes) override;
    void release(const HostMemory& memory) override;
    Weight load_weight(std::span<const WeightPart> parts) override;
    void release(Weight weight) override;
    size_t weight_bytes(Weight weight) const override { return weights_.read(weight).bytes(); }
    KvCache create_kv_cache(const KvCacheSpec& spec) override;
    void release(KvCache cache) override;
    size_t kv_block_bytes(const KvCacheSpec& spec) const override { return KvStore::block_bytes(spec); }
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

    // cpu_operations.cpp

    void begin(const ForwardBatch& batch) override { program_.begin(batch); }
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

    Fence fence() override { return program_.fence(); }
    void wait(Fence fence) override {
        if (!program_.has_passed(fence))
            synchronize();
    }
    void synchronize() override { program_.run(); }
    void set_profiling(bool on) override { program_.set_profiling(on); }
    KernelProfile take_profile() override { return program_.take_profile(); }

private:
    struct Allocation {
        Memory memory;
        size_t bytes = 0;
    };

    [[noreturn]] static void not_built(const char* what);
    [[noreturn]] void refuse(size_t bytes, const char* what) const;
    /// Throws OutOfMemory where the machine has no `bytes` left. What is held and has not been touched yet
    /// counts as available to the system, and not here.
    void check_memory(size_t bytes, const char* what) const;
    std::shared_ptr<Allocation> take(size_t bytes, const char* what);

    static std::byte* checked(Buffer buffer, const Allocation& a, size_t offset_bytes, size_t bytes);
    /// A constant of `count` floats.
    const float* floats(Buffer buffer, int64_t count) const;
    /// The same, or null where there is no buffer.
    const float* floats_or_null(Buffer buffer, int64_t count) const {
        return buffer ? floats(buffer, count) : nullptr;
    }
    /// A norm whose weight and bias are [elements].
    NormArguments norm_arguments(const Norm& norm, int64_t elements) const;
    /// The rows of a view, which has to be [rows, columns].
    Rows rows(const View& view, int64_t rows, int64_t columns) const;

    static void check_block(const KvStore& store, int32_t block);
    static void check_layer(const KvStore& store, int layer);
    /// The start of host memory that holds a block at each of the transfers' places.
    std::byte* checked(const KvStore& store, std::span<const BlockTransfer> transfers,
                       const HostMemory& memory) const;

    const KernelTable& kernels_;
    std::shared_ptr<ThreadPool> pool_;
    /// Bytes that this back end and those that share with it hold.
    std::shared_ptr<std::atomic<size_t>> used_bytes_;
    Program program_;
    DeviceInfo info_;
    HandleTable<Buffer, Allocation> buffers_{"buffer"};
    HandleTable<HostMemory, Allocation> host_{"host memory"};
    HandleTable<Weight, CpuWeight> weights_{"weight"};
    HandleTable<KvCache, KvStore> caches_{"key/value cache"};
};

} // namespace orrery::kernels::cpu
