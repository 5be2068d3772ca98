// A back end that hands everything on to another one, and lets the test look at or fail each call.
#pragma once

#include "kernels/backend.h"

#include <functional>
#include <memory>
#include <string_view>

namespace orrery::test {

class WatchedBackend : public kernels::Backend {
public:
    /// Called with the operation's name before it is handed on; what it throws is thrown. Back ends made by
    /// share() have the same watch.
    using Watch = std::function<void(std::string_view operation)>;

    explicit WatchedBackend(std::unique_ptr<kernels::Backend> inner) : inner_(std::move(inner)) {}

    void set_watch(Watch watch) { *watch_ = std::move(watch); }

    const kernels::DeviceInfo& device() const override { return inner_->device(); }
    std::unique_ptr<kernels::Backend> share() override {
        see("share");
        auto other = std::make_unique<WatchedBackend>(inner_->share());
        other->watch_ = watch_;
        return other;
    }
    kernels::Buffer allocate(size_t bytes) override {
        see("allocate");
        return inner_->allocate(bytes);
    }
    void release(kernels::Buffer buffer) override { inner_->release(buffer); }
    void upload(kernels::Buffer buffer, size_t offset, std::span<const std::byte> bytes) override {
        see("upload");
        inner_->upload(buffer, offset, bytes);
    }
    void download(kernels::Buffer buffer, size_t offset, std::span<std::byte> bytes) override {
        see("download");
        inner_->download(buffer, offset, bytes);
    }
    kernels::HostMemory allocate_host(size_t bytes) override {
        see("allocate_host");
        return inner_->allocate_host(bytes);
    }
    void release(const kernels::HostMemory& memory) override { inner_->release(memory); }
    kernels::Weight load_weight(std::span<const kernels::WeightPart> parts) override {
        return inner_->load_weight(parts);
    }
    void release(kernels::Weight weight) override { inner_->release(weight); }
    size_t weight_bytes(kernels::Weight weight) const override { return inner_->weight_bytes(weight); }
    kernels::KvCache create_kv_cache(const kernels::KvCacheSpec& spec) override {
        see("create_kv_cache");
        return inner_->create_kv_cache(spec);
    }
    void release(kernels::KvCache cache) override { inner_->release(cache); }
    size_t kv_block_bytes(const kernels::KvCacheSpec& spec) const override {
        return inner_->kv_block_bytes(spec);
    }
    void copy_kv_blocks(kernels::KvCache cache, std::span<const kernels::BlockCopy> copies) override {
        see("copy_kv_blocks");
        inner_->copy_kv_blocks(cache, copies);
    }
    void copy_kv_blocks_out(kernels::KvCache cache, std::span<const kernels::BlockTransfer> transfers,
                            const kernels::HostMemory& to) override {
        see("copy_kv_blocks_out");
        inner_->copy_kv_blocks_out(cache, transfers, to);
    }
    void copy_kv_blocks_in(kernels::KvCache cache, std::span<const kernels::BlockTransfer> transfers,
                           const kernels::HostMemory& from) override {
        see("copy_kv_blocks_in");
        inner_->copy_kv_blocks_in(cache, transfers, from);
    }
    kernels::StateCache create_state_cache(const kernels::StateCacheSpec& spec) override {
        see("create_state_cache");
        return inner_->create_state_cache(spec);
    }
    void release(kernels::StateCache cache) override { inner_->release(cache); }
    size_t state_slot_bytes(const kernels::StateCacheSpec& spec) const override {
        return inner_->state_slot_bytes(spec);
    }
    void copy_state_slots(kernels::StateCache cache, std::span<const kernels::BlockCopy> copies) override {
        see("copy_state_slots");
        inner_->copy_state_slots(cache, copies);
    }
    void copy_state_slots_out(kernels::StateCache cache, std::span<const kernels::BlockTransfer> transfers,
                              const kernels::HostMemory& to) override {
        see("copy_state_slots_out");
        inner_->copy_state_slots_out(cache, transfers, to);
    }
    void copy_state_slots_in(kernels::StateCache cache, std::span<const kernels::BlockTransfer> transfers,
                             const kernels::HostMemory& from) override {
        see("copy_state_slots_in");
        inner_->copy_state_slots_in(cache, transfers, from);
    }
    void begin(const kernels::ForwardBatch& batch) override {
        see("begin");
        inner_->begin(batch);
    }
    void embed(const kernels::EmbedOp& op) override {
        see("embed");
        inner_->embed(op);
    }
    void norm(const kernels::NormOp& op) override {
        see("norm");
        inner_->norm(op);
    }
    void linear(const kernels::LinearOp& op) override {
        see("linear");
        inner_->linear(op);
    }
    void gate(const kernels::GateOp& op) override {
        see("gate");
        inner_->gate(op);
    }
    void add(const kernels::AddOp& op) override {
        see("add");
        inner_->add(op);
    }
    void soft_cap(const kernels::SoftCapOp& op) override {
        see("soft_cap");
        inner_->soft_cap(op);
    }
    void gather(const kernels::GatherOp& op) override {
        see("gather");
        inner_->gather(op);
    }
    void rope_store(const kernels::RopeStoreOp& op) override {
        see("rope_store");
        inner_->rope_store(op);
    }
    void attention(const kernels::AttentionOp& op) override {
        see("attention");
        inner_->attention(op);
    }
    void route(const kernels::RouteOp& op) override {
        see("route");
        inner_->route(op);
    }
    void expert_linear(const kernels::ExpertLinearOp& op) override {
        see("expert_linear");
        inner_->expert_linear(op);
    }
    void combine_experts(const kernels::CombineExpertsOp& op) override {
        see("combine_experts");
        inner_->combine_experts(op);
    }
    void convolve(const kernels::ConvolveOp& op) override {
        see("convolve");
        inner_->convolve(op);
    }
    void ssm_scan(const kernels::SsmScanOp& op) override {
        see("ssm_scan");
        inner_->ssm_scan(op);
    }
    void delta_rule(const kernels::DeltaRuleOp& op) override {
        see("delta_rule");
        inner_->delta_rule(op);
    }
    void sample(const kernels::SampleOp& op) override {
        see("sample");
        inner_->sample(op);
    }
    kernels::Fence fence() override {
        see("fence");
        return inner_->fence();
    }
    void wait(kernels::Fence fence) override {
        see("wait");
        inner_->wait(fence);
    }
    void synchronize() override {
        see("synchronize");
        inner_->synchronize();
    }
    void set_profiling(bool on) override { inner_->set_profiling(on); }
    kernels::KernelProfile take_profile() override {
        see("take_profile");
        return inner_->take_profile();
    }

private:
    void see(std::string_view operation) {
        if (*watch_)
            (*watch_)(operation);
    }

    std::unique_ptr<kernels::Backend> inner_;
    std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
};

} // namespace orrery::test
