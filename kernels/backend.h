// The device. An engine talks to a CPU, a GPU or the plain reference through this interface alone.
//
// It is shaped like a device: buffers are opaque handles that only the back end dereferences, the host
// sees bytes through upload() and download() alone, operations are few and fused, and they are queued.
// An operation that has been called may run later; synchronize() and download() wait for all of them.
//
// Law 1 binds every implementation: a row's result depends on that row alone, bit for bit. It must not
// depend on how many rows came with it, how they were cut into batches, or how many threads ran.
//
// A back end is used by one thread at a time. share() gives another thread one of its own.
#pragma once

#include "kernels/operations.h"
#include "kernels/tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace orrery::kernels {

struct DeviceInfo {
    std::string name; ///< such as "CPU AVX-512 VNNI"
    std::string why;  ///< why this device was chosen, or why another was not; may be empty
    int threads = 1;
    size_t memory_bytes = 0; ///< memory that the device can hold in all
    /// Rows of a pass from which on more of them save next to nothing: a row costs nearly the least, and a
    /// larger pass only takes longer.
    int efficient_rows = 512;
};

/// Nanoseconds per kernel family since the last take_profile(), while profiling is on.
struct KernelProfile {
    uint64_t attention_ns = 0;
    uint64_t matmul_ns = 0;
    uint64_t norm_ns = 0;
    uint64_t other_ns = 0;
    uint64_t sample_ns = 0; ///< not part of a forward pass
};

class Backend {
public:
    virtual ~Backend() = default;
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    virtual const DeviceInfo& device() const = 0;

    /// A second back end on the same device, with a queue, buffers and caches of its own. It knows the
    /// weights and the constants (buffers) that this one holds now, reads them and never writes or releases
    /// them; this one has to outlive it and releases none of them meanwhile. Each of the two may be used by
    /// its own thread.
    virtual std::unique_ptr<Backend> share() = 0;

    // Memory. All that take some throw OutOfMemory with what was needed and what was there.

    virtual Buffer allocate(size_t bytes) = 0;
    virtual void release(Buffer buffer) = 0;
    virtual void upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) = 0;
    /// Waits for the queued operations, then copies from the device.
    virtual void download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) = 0;

    /// Memory of the host for transfers of blocks.
    virtual HostMemory allocate_host(size_t bytes) = 0;
    virtual void release(const HostMemory& memory) = 0;

    /// Parts of equal `columns`, stacked along the rows. The bytes of the parts must stay readable for as
    /// long as the weight lives: a back end may compute straight from them.
    virtual Weight load_weight(std::span<const WeightPart> parts) = 0;
    virtual void release(Weight weight) = 0;
    /// Bytes that one pass over the weight reads on this device.
    virtual size_t weight_bytes(Weight weight) const = 0;

    // Keys and values.

    virtual KvCache create_kv_cache(const KvCacheSpec& spec) = 0;
    virtual void release(KvCache cache) = 0;
    /// Bytes of one block over all layers, keys and values.
    virtual size_t kv_block_bytes(const KvCacheSpec& spec) const = 0;
    /// Queued: later operations see the copies. The copies are independent of each other.
    virtual void copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) = 0;
    /// Whole blocks, kv_block_bytes each, to and from host memory. Queued, in the order of the calls. The
    /// host may read what was copied out, and change what was copied in, once a fence after the call has
    /// passed.
    virtual void copy_kv_blocks_out(KvCache cache, std::span<const BlockTransfer> transfers,
                                    const HostMemory& to) = 0;
    virtual void copy_kv_blocks_in(KvCache cache, std::span<const BlockTransfer> transfers,
                                   const HostMemory& from) = 0;

    // Recurrent state: slots in the place of blocks.

    virtual StateCache create_state_cache(const StateCacheSpec& spec) = 0;
    virtual void release(StateCache cache) = 0;
    /// Bytes of one slot over all layers.
    virtual size_t state_slot_bytes(const StateCacheSpec& spec) const = 0;
    virtual void copy_state_slots(StateCache cache, std::span<const BlockCopy> copies) = 0;
    virtual void copy_state_slots_out(StateCache cache, std::span<const BlockTransfer> transfers,
                                      const HostMemory& to) = 0;
    virtual void copy_state_slots_in(StateCache cache, std::span<const BlockTransfer> transfers,
                                     const HostMemory& from) = 0;

    // The forward pass. begin() sets the batch that the operations after it refer to. Queued.

    virtual void begin(const ForwardBatch& batch) = 0;
    virtual void embed(const EmbedOp& op) = 0;
    virtual void norm(const NormOp& op) = 0;
    virtual void linear(const LinearOp& op) = 0;
    virtual void gate(const GateOp& op) = 0;
    virtual void add(const AddOp& op) = 0;
    virtual void soft_cap(const SoftCapOp& op) = 0;
    virtual void gather(const GatherOp& op) = 0;
    virtual void rope_store(const RopeStoreOp& op) = 0;
    virtual void attention(const AttentionOp& op) = 0;
    virtual void route(const RouteOp& op) = 0;
    virtual void expert_linear(const ExpertLinearOp& op) = 0;
    virtual void combine_experts(const CombineExpertsOp& op) = 0;
    virtual void convolve(const ConvolveOp& op) = 0;
    virtual void ssm_scan(const SsmScanOp& op) = 0;
    virtual void delta_rule(const DeltaRuleOp& op) = 0;
    virtual void sample(const SampleOp& op) = 0;

    // Waiting.

    /// Names all that has been queued so far.
    virtual Fence fence() = 0;
    /// Waits until everything before the fence has run; what was queued later may still run.
    virtual void wait(Fence fence) = 0;
    /// Waits until every queued operation has run.
    virtual void synchronize() = 0;

    virtual void set_profiling(bool on) = 0;
    virtual KernelProfile take_profile() = 0;
};

} // namespace orrery::kernels
