// The reference back end: plain loops, no cleverness. It is the truth that every faster back end is held
// against, and it keeps to the letter of the Backend interface so that code that breaks on a device breaks
// here first:
//
// - Handles name entries of a private table and are never used twice, so one that has been released names
//   nothing, and using it is an Error.
// - Operations are checked when they are called (shapes, sizes, ids, slots: an Error names the operation
//   and the value) but run only in synchronize(), download() or whatever else must wait.
// - With `poison`, memory starts out as NaNs instead of zeros, in floats and in scales alike: what reads
//   before it writes is seen in the result.
#pragma once

#include "kernels/backend.h"

#include <cstdlib>
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

    const DeviceInfo& device() const override { return device_; }

    Buffer allocate(size_t bytes) override;
    void release(Buffer buffer) override;
    void upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) override;
    void download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) override;

    Weight load_weight(std::span<const WeightPart> parts) override;
    void release(Weight weight) override;
    size_t weight_bytes(Weight weight) const override;

    KvCache create_kv_cache(const KvCacheSpec& spec) override;
    void release(KvCache cache) override;
    size_t kv_block_bytes(const KvCacheSpec& spec) const override;
    void copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) override;
    void download_kv_block(KvCache cache, int32_t block, std::span<std::byte> bytes) override;
    void upload_kv_block(KvCache cache, int32_t block, std::span<const std::byte> bytes) override;

    void begin(const ForwardBatch& batch) override;
    void embed(const EmbedOp& op) override;
    void linear(const LinearOp& op) override;
    void rope_store(const RopeStoreOp& op) override;
    void attention(const AttentionOp& op) override;
    void gather(const GatherOp& op) override;
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
    struct Cache;
    /// A ForwardBatch with arrays of its own, shared by the operations that were queued under it.
    struct Batch {
        std::vector<int32_t> ids, positions, kv_slots;
        std::vector<Span> spans;
        std::vector<int32_t> block_tables, output_rows;
        size_t rows() const { return positions.size(); }
    };
    struct Command {
        uint64_t KernelProfile::*family;
        std::function<void()> run;
    };

    Memory take_memory(size_t bytes, const char* what);
    void give_back(const Memory& memory) { used_bytes_ -= memory.size; }
    /// The memory of a buffer of which an operation needs the first `count` floats.
    float* floats(Buffer buffer, size_t count, const char* what) const;
    const Memory& memory_of(Buffer buffer) const;
    const StackedWeight& weight_of(Weight weight) const;
    Cache& cache_of(KvCache cache) const;
    std::byte* block_of(KvCache cache, int32_t block, size_t host_bytes) const;
    std::shared_ptr<const Batch> current_batch(const char* operation) const;
    /// Where the batch's block table says that a token of a span is kept.
    static int32_t slot_of(const Batch& batch, const Span& span, int32_t position, int block_size);
    void enqueue(uint64_t KernelProfile::*family, std::function<void()> run);

    ReferenceOptions options_;
    DeviceInfo device_;
    size_t used_bytes_ = 0;
    uint32_t last_id_ = 0;
    std::unordered_map<uint32_t, Memory> buffers_;
    std::unordered_map<uint32_t, StackedWeight> weights_;
    std::unordered_map<uint32_t, std::shared_ptr<Cache>> caches_;
    std::shared_ptr<const Batch> batch_;
    std::vector<Command> queue_;
    bool profiling_ = false;
    KernelProfile profile_;
};

} // namespace orrery::kernels
