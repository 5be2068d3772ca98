// What an operation works on: memory, weights, caches and states on a device, all of them opaque handles
// that only the back end dereferences.
#pragma once

#include "kernels/quant/kv_type.h"
#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery::kernels {

/// Memory on the device.
struct Buffer {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// A weight matrix [rows, columns] on the device, in whatever layout suits the device. Immutable.
struct Weight {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// The keys and values of a group of layers of one shape, in blocks.
struct KvCache {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// The recurrent state of a group of layers of one shape, in slots, one slot a sequence.
struct StateCache {
    uint32_t id = 0;
    explicit operator bool() const { return id != 0; }
};

/// Host memory that the device copies to and from directly (page-locked on a GPU).
struct HostMemory {
    uint32_t id = 0;
    std::byte* bytes = nullptr; ///< readable and writable by the host
    size_t size = 0;
    explicit operator bool() const { return id != 0; }
};

/// A point in the queue of operations: all that was queued before it.
struct Fence {
    uint64_t value = 0;
};

/// How the elements of activations are kept.
enum class ElementType : uint8_t { f32, bf16, f16 };

constexpr size_t element_bytes(ElementType type) {
    return type == ElementType::f32 ? 4 : 2;
}

/// Part of a buffer as a matrix [rows, columns]: element (r, c) is element offset + r · row_stride + c of the
/// buffer. All numbers count elements. Parts of a fused projection are views with its row stride.
///
/// A matrix [rows, heads · length] without gaps can also be seen as [rows · heads, length].
struct View {
    Buffer buffer;
    int64_t offset = 0;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t row_stride = 0;
    ElementType type = ElementType::f32;

    explicit operator bool() const { return static_cast<bool>(buffer); }
    /// The same rows, columns [first, first + count).
    View slice(int64_t first, int64_t count) const {
        return {buffer, offset + first, rows, count, row_stride, type};
    }
    /// The first `count` rows.
    View top(int64_t count) const { return {buffer, offset, count, columns, row_stride, type}; }
    /// Each row cut into `pieces` rows of equal length; there must be no gap between rows.
    View split(int64_t pieces) const {
        return {buffer, offset, rows * pieces, columns / pieces, columns / pieces, type};
    }
};

/// All of a buffer as [rows, columns] without gaps.
constexpr View matrix(Buffer buffer, int64_t rows, int64_t columns, ElementType type = ElementType::f32) {
    return {buffer, 0, rows, columns, columns, type};
}

/// Some rows of a weight matrix as they stand in a model file: [rows, columns], each row a sequence of
/// blocks of `type`. Several parts stacked along the rows make one Weight (query, key and value, say),
/// each part in its own format.
struct WeightPart {
    TensorType type = TensorType::F32;
    int64_t rows = 0;
    int64_t columns = 0;
    const std::byte* bytes = nullptr; ///< of the first row's first block
    /// From one row to the next; 0: rows follow each other without gaps. With a stride, `bytes` and `columns`
    /// can name some columns of a wider matrix, from a block's start on (a slice for tensor parallel).
    size_t row_stride_bytes = 0;
};

/// Keys and values of `layers` layers that have one shape.
struct KvCacheSpec {
    int layers = 0;
    int kv_heads = 0;
    int key_length = 0;   ///< elements of one head's key
    int value_length = 0; ///< elements of one head's value
    int block_size = 16;  ///< tokens per block
    int blocks = 0;
    KvType type = KvType::f16;
    /// A head's value is the first `value_length` elements of its key and is not stored again: latent
    /// attention (DeepSeek-AI 2024, arXiv 2405.04434), where one shared head holds latent | rotated key.
    bool value_in_key = false;
};

/// Recurrent state of `layers` layers that have one shape, float32. A slot holds, for each layer, the last
/// `kernel` − 1 inputs of a convolution, [kernel − 1, channels], and a state [heads, rows, columns].
struct StateCacheSpec {
    int layers = 0;
    int channels = 0;   ///< of the convolution; 0: none
    int kernel = 0;     ///< taps of the convolution
    int heads = 0;      ///< of the recurrence; 0: none
    int rows = 0;       ///< Mamba-2: elements of a head. Gated delta rule: elements of a key
    int columns = 0;    ///< Mamba-2: elements of a head's state. Gated delta rule: elements of a value
    int slot_count = 0; ///< (Qt claims the word "slots")
};

/// Content of block (or slot) `from` becomes that of `to`, in every layer.
struct BlockCopy {
    int32_t from = 0;
    int32_t to = 0;
};

/// A block of a cache and its place in host memory, in bytes from its start.
struct BlockTransfer {
    int32_t block = 0;
    size_t host_offset = 0;
};

} // namespace orrery::kernels
