// A back end without arithmetic, so that what is measured is the engine alone.
#pragma once

#include "kernels/backend.h"

#include <algorithm>

namespace orrery::test {

/// Takes everything, computes nothing, and answers with zeros.
class NullBackend : public kernels::Backend {
public:
    const kernels::DeviceInfo& device() const override { return device_; }
    std::unique_ptr<kernels::Backend> share() override { return std::make_unique<NullBackend>(); }
    kernels::Buffer allocate(size_t) override { return {++last_}; }
    void release(kernels::Buffer) override {}
    void upload(kernels::Buffer, size_t, std::span<const std::byte>) override {}
    /// Whatever was computed is 0: all logits are equal, and the token drawn is the first.
    void download(kernels::Buffer, size_t, std::span<std::byte> bytes) override {
        std::ranges::fill(bytes, std::byte{});
    }
    kernels::HostMemory allocate_host(size_t) override { return {++last_, nullptr, 0}; }
    void release(const kernels::HostMemory&) override {}
    kernels::Weight load_weight(std::span<const kernels::WeightPart>) override { return {++last_}; }
    void release(kernels::Weight) override {}
    size_t weight_bytes(kernels::Weight) const override { return 0; }
    kernels::KvCache create_kv_cache(const kernels::KvCacheSpec&) override { return {++last_}; }
    void release(kernels::KvCache) override {}
    size_t kv_block_bytes(const kernels::KvCacheSpec&) const override { return 64; }
    void copy_kv_blocks(kernels::KvCache, std::span<const kernels::BlockCopy>) override {}
    void copy_kv_blocks_out(kernels::KvCache, std::span<const kernels::BlockTransfer>,
                            const kernels::HostMemory&) override {}
    void copy_kv_blocks_in(kernels::KvCache, std::span<const kernels::BlockTransfer>,
                           const kernels::HostMemory&) override {}
    kernels::StateCache create_state_cache(const kernels::StateCacheSpec&) override { return {++last_}; }
    void release(kernels::StateCache) override {}
    size_t state_slot_bytes(const kernels::StateCacheSpec&) const override { return 64; }
    void copy_state_slots(kernels::StateCache, std::span<const kernels::BlockCopy>) override {}
    void copy_state_slots_out(kernels::StateCache, std::span<const kernels::BlockTransfer>,
                              const kernels::HostMemory&) override {}
    void copy_state_slots_in(kernels::StateCache, std::span<const kernels::BlockTransfer>,
                             const kernels::HostMemory&) override {}
    void begin(const kernels::ForwardBatch&) override {}
    void embed(const kernels::EmbedOp&) override {}
    void norm(const kernels::NormOp&) override {}
    void linear(const kernels::LinearOp&) override {}
    void gate(const kernels::GateOp&) override {}
    void add(const kernels::AddOp&) override {}
    void soft_cap(const kernels::SoftCapOp&) override {}
    void gather(const kernels::GatherOp&) override {}
    void rope_store(const kernels::RopeStoreOp&) override {}
    void attention(const kernels::AttentionOp&) override {}
    void route(const kernels::RouteOp&) override {}
    void expert_linear(const kernels::ExpertLinearOp&) override {}
    void combine_experts(const kernels::CombineExpertsOp&) override {}
    void convolve(const kernels::ConvolveOp&) override {}
    void ssm_scan(const kernels::SsmScanOp&) override {}
    void delta_rule(const kernels::DeltaRuleOp&) override {}
    void sample(const kernels::SampleOp&) override {}
    kernels::Fence fence() override { return {}; }
    void wait(kernels::Fence) override {}
    void synchronize() override {}
    void set_profiling(bool) override {}
    kernels::KernelProfile take_profile() override { return {}; }

private:
    kernels::DeviceInfo device_;
    uint32_t last_ = 0;
};

} // namespace orrery::test
