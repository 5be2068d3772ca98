// The device. An engine talks to a CPU, a GPU or the plain reference through this interface alone.
//
// It is shaped like a device: buffers are opaque handles that only the back end dereferences, the host
// sees bytes through upload() and download() alone, operations are few and fused, and they are queued.
// An operation that has been called may run later; synchronize() and download() wait for all of them.
//
// Law 1 binds every implementation: a row's result depends on that row alone, bit for bit. It must not
// depend on how many rows came with it, how they were cut into batches, or how many threads ran.
//
// A back end is used by one thread at a time.
#pragma once

#include "kernels/quant/kv_type.h"
#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace orrery::kernels {

/// Memory on the device. Activations are float32 and row-major.
struct Buffer {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// A weight matrix [rows, columns] on the device, in whatever layout the device likes best.
struct Weight {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// The keys and values of all layers, in blocks.
struct KvCache {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// Some rows of a weight matrix as they stand in a model file: [rows, columns], each row a sequence of
/// blocks of `type`. Several parts stacked along the rows make one Weight (query, key and value, say),
/// each part in its own format.
struct WeightPart {
    TensorType type = TensorType::F32;
    int64_t rows = 0;
    int64_t columns = 0;
    const std::byte* bytes = nullptr;
};

struct KvCacheSpec {
    int layers = 0;
    int kv_heads = 0;
    int key_length = 0;   ///< elements of one head's key
    int value_length = 0; ///< elements of one head's value
    int block_size = 16;  ///< tokens per block
    int blocks = 0;
    KvType type = KvType::f16;
};

/// One sequence's share of a batch: `rows` consecutive rows starting at `first_row`, whose tokens stand
/// at positions first_position, first_position + 1, … of the sequence. The keys and values of the tokens
/// before them, and of these tokens once they are stored, lie in the blocks
/// block_tables[table_offset + position / block_size].
struct Span {
    int32_t first_row = 0;
    int32_t rows = 0;
    int32_t first_position = 0;
    int32_t table_offset = 0;
};

/// How one forward pass is laid out. The arrays are copied by Backend::begin().
struct ForwardBatch {
    std::span<const int32_t> ids;       ///< token of each row, [rows]
    std::span<const int32_t> positions; ///< position of each row in its sequence, [rows]
    /// Where each row's key and value go: block · block_size + offset, [rows]. (Qt claims the word "slots".)
    std::span<const int32_t> kv_slots;
    std::span<const Span> spans;           ///< the sequences, in the order of their rows
    std::span<const int32_t> block_tables; ///< block ids of all spans, one after the other
    std::span<const int32_t> output_rows;  ///< rows whose logits are wanted, ascending
};

/// out[row, :] = table[ids[row], :] · scale
struct EmbedOp {
    Weight table;
    Buffer out;
    float scale = 1.0f;
};

enum class Prologue : uint8_t {
    none,
    rms_norm,  ///< x ← x / √(mean(x²) + eps) · norm        (Zhang & Sennrich 2019)
    silu_gate, ///< x = [gate | up], each `columns` wide; x ← silu(gate) · up   (Shazeer 2020)
};

/// out[row, :] = (or +=, where `accumulate`) prologue(x[row, :]) · weightᵀ + bias
/// x is [rows, columns] ([rows, 2·columns] for a gated prologue), out is [rows, weight rows].
struct LinearOp {
    Buffer x;
    Weight weight;
    Buffer out;
    int rows = 0;
    Prologue prologue = Prologue::none;
    Buffer norm = {};  ///< float32 [columns], for rms_norm
    float eps = 1e-5f; ///< for rms_norm
    Buffer bias = {};  ///< float32 [weight rows], or none
    bool accumulate = false;
};

enum class RopeStyle : uint8_t {
    interleaved, ///< pairs (x0, x1), (x2, x3), …: "normal" in ggml
    halves,      ///< pairs (x0, x[d/2]), (x1, x[d/2+1]), …: "neox" in ggml
};

/// Turns the queries and keys of `qkv` in place by their positions (Su et al. 2021) and stores keys and
/// values at the batch's kv_slots. qkv is [rows, heads·key_length + kv_heads·key_length +
/// kv_heads·value_length]: all query heads, then all key heads, then all value heads.
struct RopeStoreOp {
    Buffer qkv;
    KvCache cache;
    int layer = 0;
    int heads = 0;
    Buffer rope = {};   ///< float32 [positions, dimensions / 2, 2]: cosine and sine; none: no rotation
    int dimensions = 0; ///< the first `dimensions` elements of a head are turned
    RopeStyle style = RopeStyle::interleaved;
};

/// Causal attention of every row over its sequence's cached tokens 0 … position.
/// out is [rows, heads · value_length]; query head h reads key/value head h · kv_heads / heads.
struct AttentionOp {
    Buffer qkv; ///< as RopeStoreOp left it
    KvCache cache;
    int layer = 0;
    int heads = 0;
    float scale = 0.0f; ///< usually 1/√key_length
    Buffer out;
};

/// out[i, :] = x[output_rows[i], :], both `columns` wide.
struct GatherOp {
    Buffer x;
    Buffer out;
    int columns = 0;
};

/// Whole blocks of every layer are copied: content of `from` to `to`.
struct BlockCopy {
    int32_t from = 0;
    int32_t to = 0;
};

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
};

class Backend {
public:
    virtual ~Backend() = default;
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    virtual const DeviceInfo& device() const = 0;

    // Memory. All of these throw OutOfMemory with what was needed and what was there.

    virtual Buffer allocate(size_t bytes) = 0;
    virtual void release(Buffer buffer) = 0;
    virtual void upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) = 0;
    /// Waits for the queued operations, then copies from the device.
    virtual void download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) = 0;

    /// Parts of equal `columns`, stacked along the rows. The bytes of the parts must stay readable for as
    /// long as the weight lives: a back end may compute straight from them.
    virtual Weight load_weight(std::span<const WeightPart> parts) = 0;
    virtual void release(Weight weight) = 0;
    /// Bytes that one pass over the weight reads on this device.
    virtual size_t weight_bytes(Weight weight) const = 0;

    virtual KvCache create_kv_cache(const KvCacheSpec& spec) = 0;
    virtual void release(KvCache cache) = 0;
    /// Bytes of one block over all layers, keys and values.
    virtual size_t kv_block_bytes(const KvCacheSpec& spec) const = 0;
    /// Queued: later operations see the copies. The copies are independent of each other.
    virtual void copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) = 0;
    /// One block's content, kv_block_bytes long, to and from the host. Waits.
    virtual void download_kv_block(KvCache cache, int32_t block, std::span<std::byte> bytes) = 0;
    virtual void upload_kv_block(KvCache cache, int32_t block, std::span<const std::byte> bytes) = 0;

    // The forward pass. begin() sets the batch that the operations after it refer to; buffers hold at
    // least the rows that the batch has. Queued.

    virtual void begin(const ForwardBatch& batch) = 0;
    virtual void embed(const EmbedOp& op) = 0;
    virtual void linear(const LinearOp& op) = 0;
    virtual void rope_store(const RopeStoreOp& op) = 0;
    virtual void attention(const AttentionOp& op) = 0;
    virtual void gather(const GatherOp& op) = 0;
    /// Waits until every queued operation has run.
    virtual void synchronize() = 0;

    virtual void set_profiling(bool on) = 0;
    virtual KernelProfile take_profile() = 0;
};

} // namespace orrery::kernels
