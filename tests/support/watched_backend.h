// A back end that hands everything on to another one, and lets the test look at or fail each call.
#pragma once

#include "kernels/backend.h"

#include <functional>
#include <memory>
#include <string_view>

namespace orrery::test {

class WatchedBackend : public kernels::Backend {
public:
    /// Called with the operation's name before it is handed on; what it throws is thrown.
    using Watch = std::function<void(std::string_view operation)>;

    explicit WatchedBackend(std::unique_ptr<kernels::Backend> inner) : inner_(std::move(inner)) {}

    void set_watch(Watch watch) { watch_ = std::move(watch); }

    const kernels::DeviceInfo& device() const override { return inner_->device(); }
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
    void download_kv_block(kernels::KvCache cache, int32_t block, std::span<std::byte> bytes) override {
        see("download_kv_block");
        inner_->download_kv_block(cache, block, bytes);
    }
    void upload_kv_block(kernels::KvCache cache, int32_t block, std::span<const std::byte> bytes) override {
        see("upload_kv_block");
        inner_->upload_kv_block(cache, block, bytes);
    }
    void begin(const kernels::ForwardBatch& batch) override {
        see("begin");
        inner_->begin(batch);
    }
    void embed(const kernels::EmbedOp& op) override {
        see("embed");
        inner_->embed(op);
    }
    void linear(const kernels::LinearOp& op) override {
        see("linear");
        inner_->linear(op);
    }
    void rope_store(const kernels::RopeStoreOp& op) override {
        see("rope_store");
        inner_->rope_store(op);
    }
    void attention(const kernels::AttentionOp& op) override {
        see("attention");
        inner_->attention(op);
    }
    void gather(const kernels::GatherOp& op) override {
        see("gather");
        inner_->gather(op);
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
        if (watch_)
            watch_(operation);
    }

    std::unique_ptr<kernels::Backend> inner_;
    Watch watch_;
};

} // namespace orrery::test
