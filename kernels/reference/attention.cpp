// Rotation, the cache and attention.
#include "kernels/reference/batch.h"
#include "kernels/reference/caches.h"
#include "kernels/reference/checks.h"

#include <algorithm>

namespace orrery::kernels {

using reference::number;
using reference::require;
using reference::require_apart;
using reference::Rows;

namespace {

void require_layer(int layer, int layers) {
    require(layer >= 0 && layer < layers,
            "Layer " + number(layer) + " is not one of the cache's " + number(layers) + ".");
}

/// The first position that a row at `position` sees.
int32_t first_visible(const AttentionOp& op, int32_t position) {
    if (op.window <= 0)
        return 0;
    return op.chunked ? position / op.window * op.window : std::max(0, position - op.window + 1);
}

} // namespace

void ReferenceBackend::rope_store(const RopeStoreOp& op) {
    const auto batch = current_batch("rope_store");
    const Cache& cache = cache_of(op.cache);
    const KvCacheSpec& spec = cache.spec;
    const auto T = static_cast<int64_t>(batch->rows());
    const auto heads = static_cast<size_t>(op.heads);
    const auto kv_heads = static_cast<size_t>(spec.kv_heads);
    const auto key_length = static_cast<size_t>(spec.key_length);
    const auto value_length = static_cast<size_t>(spec.value_length);
    require_layer(op.layer, spec.layers);
    require(op.heads > 0, "rope_store cannot prepare " + number(op.heads) + " heads.");
    require(op.rope.dimensions >= 0 && op.rope.dimensions % 2 == 0 && op.rope.first >= 0 &&
                op.rope.first + op.rope.dimensions <= spec.key_length,
            "A rotation of " + number(op.rope.dimensions) + " elements from element " +
                number(op.rope.first) + " of " + number(spec.key_length) +
                ": it must be an even number of them.");
    require(static_cast<bool>(op.v) == (op.k && !spec.value_in_key),
            op.v ? "rope_store has values without keys, or values that lie in their keys."
                 : "rope_store has keys without values.");
    const Rows q = rows_to(op.q, T, int64_t{op.heads} * spec.key_length, "rope_store's q");
    const Rows k =
        op.k ? rows_to(op.k, T, int64_t{spec.kv_heads} * spec.key_length, "rope_store's k") : Rows();
    const Rows v =
        op.v ? rows_to(op.v, T, int64_t{spec.kv_heads} * spec.value_length, "rope_store's v") : Rows();
    require_apart(op.q, {op.k, op.v}, "rope_store");
    if (op.k)
        require_apart(op.k, {op.v}, "rope_store");

    const Batch::Layout* layout = nullptr;
    if (op.k) {
        layout = &batch->layout(op.layout, "rope_store");
        for (const int32_t slot : layout->kv_slots)
            require(slot < 0 || slot / spec.block_size < spec.blocks,
                    "Slot " + number(slot) + " lies outside of a cache of " + number(spec.blocks) +
                        " blocks of " + number(spec.block_size) + ".");
    }
    const auto dimensions = static_cast<size_t>(op.rope.dimensions);
    const auto positions = static_cast<size_t>(batch->largest_position + 1);
    const std::span<const float> table =
        optional_floats(op.rope.table, positions * dimensions, "rope_store's rope table");
    const std::span<const float> scales =
        optional_floats(op.query_scale, positions, "rope_store's query scales");
    const reference::NormValues q_norm = values_of(op.q_norm, spec.key_length, "rope_store's q_norm");
    const reference::NormValues k_norm = values_of(op.k_norm, spec.key_length, "rope_store's k_norm");
    const reference::NormValues v_norm = values_of(op.v_norm, spec.value_length, "rope_store's v_norm");

    enqueue(&KernelProfile::other_ns, [=, &cache, &spec, layer = op.layer, rope = op.rope,
                                       norm_after_rope = op.norm_after_rope] {
        const auto prepare = [&](std::span<float> head, const reference::NormValues& norm, size_t position) {
            if (!norm_after_rope)
                reference::norm(head, norm, head);
            if (!table.empty())
                reference::apply_rope(head.subspan(static_cast<size_t>(rope.first), dimensions),
                                      table.subspan(position * dimensions, dimensions), rope.style);
            if (norm_after_rope)
                reference::norm(head, norm, head);
        };
        std::vector<float> queries(q.columns), keys(k.columns), values(v.columns), key(key_length);
        for (size_t row = 0; row < batch->rows(); ++row) {
            const auto position = static_cast<size_t>(batch->positions[row]);
            q.read(row, queries);
            for (size_t head = 0; head < heads; ++head)
                prepare({&queries[head * key_length], key_length}, q_norm, position);
            if (!scales.empty())
                for (float& element : queries)
                    element *= scales[position];
            q.write(row, queries);
            if (!k)
                continue;

            k.read(row, keys);
            for (size_t head = 0; head < kv_heads; ++head)
                prepare({&keys[head * key_length], key_length}, k_norm, position);
            k.write(row, keys);
            k.read(row, keys); // as the view rounds them
            if (v) {
                v.read(row, values);
                for (size_t head = 0; head < kv_heads; ++head) {
                    const std::span value(&values[head * value_length], value_length);
                    reference::norm(value, v_norm, value);
                }
                v.write(row, values);
                v.read(row, values);
            }
            const int32_t slot = layout->kv_slots[row];
            for (size_t head = 0; head < kv_heads && slot >= 0; ++head) {
                std::copy_n(&keys[head * key_length], key_length, key.begin());
                if (rotates_keys(spec.type))
                    rotate(key.data(), key_length);
                encode_kv_row(spec.type, key.data(), cache.key(layer, slot, head), key_length);
                if (v)
                    encode_kv_row(spec.type, &values[head * value_length], cache.value(layer, slot, head),
                                  value_length);
            }
        }
    });
}

void ReferenceBackend::attention(const AttentionOp& op) {
    const auto batch = current_batch("attention");
    const Cache& cache = cache_of(op.cache);
    const KvCacheSpec& spec = cache.spec;
    require_layer(op.layer, spec.layers);
    require(op.heads > 0 && op.heads % spec.kv_heads == 0,
            number(op.heads) + " query heads cannot share " + number(spec.kv_heads) + " key heads evenly.");
    require(op.window >= 0 && (op.window > 0 || !op.chunked),
            "attention cannot see a window of " + number(op.window) + " tokens.");
    const auto T = static_cast<int64_t>(batch->rows());
    const auto heads = static_cast<size_t>(op.heads);
    const auto kv_heads = static_cast<size_t>(spec.kv_heads);
    const auto key_length = static_cast<size_t>(spec.key_length);
    const auto value_length = static_cast<size_t>(spec.value_length);
    const Rows q = rows_of(op.q, T, int64_t{op.heads} * spec.key_length, "attention's q");
    const Rows out = rows_to(op.out, T, int64_t{op.heads} * spec.value_length, "attention's out");
    require_apart(op.out, {op.q}, "attention");
    const std::span<const float> sinks = optional_floats(op.sinks, heads, "attention's sinks");
    const std::span<const float> alibi = optional_floats(op.alibi, heads, "attention's alibi");

    const Batch::Layout& layout = batch->layout(op.layout, "attention");
    for (size_t s = 0; s < batch->spans.size(); ++s) {
        const Span& span = batch->spans[s];
        const int32_t tokens = span.first_position + span.rows;
        const int32_t blocks = (tokens + spec.block_size - 1) / spec.block_size;
        const auto table_size = static_cast<int32_t>(layout.block_tables.size());
        const int32_t offset = layout.table_offsets[s];
        require(offset >= 0 && blocks <= table_size - offset,
                "A span of " + number(tokens) + " tokens needs " + number(blocks) + " blocks from entry " +
                    number(offset) + " of a table of " + number(table_size) + ".");
        // Blocks that no row sees may have been given back.
        for (int32_t i = first_visible(op, span.first_position) / spec.block_size; i < blocks; ++i) {
            const int32_t block = layout.block_tables[static_cast<size_t>(offset + i)];
            require(block >= 0 && block < spec.blocks, "Block " + number(block) + " is not one of the " +
                                                           number(spec.blocks) + " of this cache.");
        }
        for (int32_t i = 0; i < span.rows; ++i) {
            const int32_t slot = layout.slot_of(s, span.first_position + i, spec.block_size);
            const int32_t stored = layout.kv_slots[static_cast<size_t>(span.first_row + i)];
            require(stored == slot, "Row " + number(span.first_row + i) + " is stored at slot " +
                                        number(stored) + ", but its block table reads slot " + number(slot) +
                                        ".");
        }
    }

    enqueue(&KernelProfile::attention_ns, [=, &cache, &spec, &layout] {
        const std::vector<float> zeros(out.columns);
        size_t next_row = 0;
        std::vector<float> queries(q.columns), attended(out.columns);
        for (size_t s = 0; s < batch->spans.size(); ++s) {
            const Span& span = batch->spans[s];
            for (; next_row < static_cast<size_t>(span.first_row); ++next_row)
                out.write(next_row, zeros);

            // The keys and values of all tokens that some row sees, [kv_heads, tokens, length].
            const int32_t first = first_visible(op, span.first_position);
            const auto tokens = static_cast<size_t>(span.first_position + span.rows - first);
            std::vector<float> keys(kv_heads * tokens * key_length);
            std::vector<float> values(kv_heads * tokens * value_length);
            std::vector<float> key(key_length);
            for (size_t head = 0; head < kv_heads; ++head)
                for (size_t token = 0; token < tokens; ++token) {
                    const int32_t slot =
                        layout.slot_of(s, first + static_cast<int32_t>(token), spec.block_size);
                    float* const value = &values[(head * tokens + token) * value_length];
                    decode_kv_row(spec.type, cache.key(op.layer, slot, head), key.data(), key_length);
                    std::copy(key.begin(), key.end(), &keys[(head * tokens + token) * key_length]);
                    if (spec.value_in_key) {
                        if (rotates_keys(spec.type))
                            rotate(key.data(), key_length);
                        std::copy_n(key.begin(), value_length, value);
                    } else {
                        decode_kv_row(spec.type, cache.value(op.layer, slot, head), value, value_length);
                    }
                }

            for (int32_t i = 0; i < span.rows; ++i, ++next_row) {
                const int32_t position = span.first_position + i;
                const auto begin = static_cast<size_t>(first_visible(op, position) - first);
                const size_t visible = static_cast<size_t>(position - first) + 1 - begin;
                q.read(next_row, queries);
                for (size_t head = 0; head < heads; ++head) {
                    const size_t offset = head * kv_heads / heads * tokens + begin;
                    const std::span query(&queries[head * key_length], key_length);
                    if (rotates_keys(spec.type))
                        rotate(query.data(), key_length);
                    reference::attend(query, {&keys[offset * key_length], visible * key_length},
                                      {&values[offset * value_length], visible * value_length},
                                      {op.scale, op.soft_cap, alibi.empty() ? 0.0f : alibi[head],
                                       sinks.empty() ? nullptr : &sinks[head]},
                                      {&attended[head * value_length], value_length});
                }
                out.write(next_row, attended);
            }
        }
        for (; next_row < out.rows; ++next_row)
            out.write(next_row, zeros);
    });
}

} // namespace orrery::kernels
