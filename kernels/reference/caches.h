// How the reference back end lays out keys, values and recurrent states.
#pragma once

#include "kernels/quant/kv_row.h"
#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

// Blocks lie one after the other. A block holds for each layer its keys, then its values, both
// [kv_heads, block_size] rows (see kv_row.h).
struct ReferenceBackend::Cache {
    KvCacheSpec spec;
    Memory memory = {};

    size_t key_bytes() const { return row_bytes(spec.type, static_cast<size_t>(spec.key_length)); }
    size_t value_bytes() const {
        return spec.value_in_key ? 0 : row_bytes(spec.type, static_cast<size_t>(spec.value_length));
    }
    size_t rows_per_layer() const {
        return static_cast<size_t>(spec.kv_heads) * static_cast<size_t>(spec.block_size);
    }
    size_t layer_bytes() const { return rows_per_layer() * (key_bytes() + value_bytes()); }
    size_t block_bytes() const { return static_cast<size_t>(spec.layers) * layer_bytes(); }

    std::byte* block(int32_t index) const {
        return memory.bytes.get() + static_cast<size_t>(index) * block_bytes();
    }
    std::byte* key(int layer, int32_t slot, size_t head) const {
        return block(slot / spec.block_size) + static_cast<size_t>(layer) * layer_bytes() +
               row(slot, head) * key_bytes();
    }
    std::byte* value(int layer, int32_t slot, size_t head) const {
        return block(slot / spec.block_size) + static_cast<size_t>(layer) * layer_bytes() +
               rows_per_layer() * key_bytes() + row(slot, head) * value_bytes();
    }

private:
    size_t row(int32_t slot, size_t head) const {
        return head * static_cast<size_t>(spec.block_size) + static_cast<size_t>(slot % spec.block_size);
    }
};

// Slots lie one after the other. A slot holds for each layer the convolution's last inputs,
// [kernel − 1, channels], then the recurrence's state, [heads, rows, columns].
struct ReferenceBackend::State {
    StateCacheSpec spec;
    Memory memory = {};

    size_t inputs() const {
        return static_cast<size_t>(spec.channels) *
               static_cast<size_t>(spec.channels > 0 ? spec.kernel - 1 : 0);
    }
    size_t head_elements() const {
        return static_cast<size_t>(spec.rows) * static_cast<size_t>(spec.columns);
    }
    size_t layer_elements() const { return inputs() + static_cast<size_t>(spec.heads) * head_elements(); }
    size_t slot_bytes() const { return static_cast<size_t>(spec.layers) * layer_elements() * sizeof(float); }

    std::byte* slot(int32_t index) const {
        return memory.bytes.get() + static_cast<size_t>(index) * slot_bytes();
    }
    /// The convolution's last inputs.
    std::span<float> inputs(int layer, int32_t index) const { return {layer_of(layer, index), inputs()}; }
    /// The state of all heads.
    std::span<float> heads(int layer, int32_t index) const {
        return {layer_of(layer, index) + inputs(), static_cast<size_t>(spec.heads) * head_elements()};
    }

private:
    float* layer_of(int layer, int32_t index) const {
        return reinterpret_cast<float*>(slot(index)) + static_cast<size_t>(layer) * layer_elements();
    }
};

} // namespace orrery::kernels
