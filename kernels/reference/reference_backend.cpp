#include "kernels/reference/reference_backend.h"

#include "kernels/error.h"
#include "kernels/platform/machine.h"
#include "kernels/quant/kv_row.h"
#include "kernels/reference/operations.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace orrery::kernels {

namespace {

/// NaN as a float, as a binary16 and as the binary16 scale of a quantised group.
constexpr int poison_byte = 0xff;

std::string number(int64_t value) {
    return std::to_string(value);
}

/// a · b, or the largest number where that does not fit.
size_t saturating_product(size_t a, size_t b) {
    const size_t largest = std::numeric_limits<size_t>::max();
    return b != 0 && a > largest / b ? largest : a * b;
}

void require(bool condition, const std::string& sentence) {
    if (!condition)
        throw Error(sentence);
}

} // namespace

// Blocks lie one after the other. A block holds for each layer its keys, then its values, both
// [kv_heads, block_size] rows (see kv_row.h).
struct ReferenceBackend::Cache {
    KvCacheSpec spec;
    Memory memory;

    size_t key_bytes() const { return row_bytes(spec.type, static_cast<size_t>(spec.key_length)); }
    size_t value_bytes() const { return row_bytes(spec.type, static_cast<size_t>(spec.value_length)); }
    size_t rows_per_layer() const {
        return static_cast<size_t>(spec.kv_heads) * static_cast<size_t>(spec.block_size);
    }
    size_t layer_bytes() const { return rows_per_layer() * (key_bytes() + value_bytes()); }
    size_t block_bytes() const { return static_cast<size_t>(spec.layers) * layer_bytes(); }

    std::byte* block(int32_t index) const {
        return memory.bytes.get() + static_cast<size_t>(index) * block_bytes();
    }
    std::byte* key(int layer, int32_t slot, int head) const {
        return block(slot / spec.block_size) + static_cast<size_t>(layer) * layer_bytes() +
               row(slot, head) * key_bytes();
    }
    std::byte* value(int layer, int32_t slot, int head) const {
        return block(slot / spec.block_size) + static_cast<size_t>(layer) * layer_bytes() +
               rows_per_layer() * key_bytes() + row(slot, head) * value_bytes();
    }

private:
    size_t row(int32_t slot, int head) const {
        return static_cast<size_t>(head * spec.block_size + slot % spec.block_size);
    }
};

ReferenceBackend::ReferenceBackend(const ReferenceOptions& options) : options_(options) {
    device_.name = "Reference";
    device_.why = options.why;
    device_.memory_bytes = options.memory_bytes;
}

// Memory

ReferenceBackend::Memory ReferenceBackend::take_memory(size_t bytes, const char* what) {
    const std::string needed = "The reference back end needs " + platform::mebibytes(bytes) + " for " + what;
    if (options_.memory_bytes > 0) {
        const size_t free = options_.memory_bytes - used_bytes_;
        if (bytes > free)
            throw OutOfMemory(needed + ", but only " + platform::mebibytes(free) + " of its " +
                              platform::mebibytes(options_.memory_bytes) + " are free.");
    }
    Memory memory;
    // calloc gives zeros without touching the pages, so a large cache costs only what is used of it.
    if (platform::has_available(bytes))
        memory.bytes.reset(static_cast<std::byte*>(std::calloc(std::max<size_t>(bytes, 1), 1)));
    if (!memory.bytes)
        throw OutOfMemory(needed + ", but the machine has no more to give: " +
                          platform::mebibytes(used_bytes_) + " are in use.");
    if (options_.poison)
        std::memset(memory.bytes.get(), poison_byte, bytes);
    memory.size = bytes;
    used_bytes_ += bytes;
    return memory;
}

Buffer ReferenceBackend::allocate(size_t bytes) {
    Memory memory = take_memory(bytes, "a buffer");
    buffers_.emplace(++last_id_, std::move(memory));
    return {last_id_};
}

void ReferenceBackend::release(Buffer buffer) {
    if (!buffer)
        return;
    synchronize();
    give_back(memory_of(buffer));
    buffers_.erase(buffer.id);
}

void ReferenceBackend::upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) {
    const Memory& memory = memory_of(buffer);
    require(offset_bytes <= memory.size && bytes.size() <= memory.size - offset_bytes,
            "An upload of " + std::to_string(bytes.size()) + " bytes at offset " +
                std::to_string(offset_bytes) + " does not fit into a buffer of " +
                std::to_string(memory.size) + " bytes.");
    synchronize();
    std::copy(bytes.begin(), bytes.end(), memory.bytes.get() + offset_bytes);
}

void ReferenceBackend::download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) {
    const Memory& memory = memory_of(buffer);
    require(offset_bytes <= memory.size && bytes.size() <= memory.size - offset_bytes,
            "A download of " + std::to_string(bytes.size()) + " bytes at offset " +
                std::to_string(offset_bytes) + " reads past the end of a buffer of " +
                std::to_string(memory.size) + " bytes.");
    synchronize();
    const std::byte* begin = memory.bytes.get() + offset_bytes;
    std::copy(begin, begin + bytes.size(), bytes.begin());
}

Weight ReferenceBackend::load_weight(std::span<const WeightPart> parts) {
    require(!parts.empty(), "A weight needs at least one part.");
    StackedWeight weight;
    weight.columns = parts.front().columns;
    for (const WeightPart& part : parts) {
        const TensorTypeInfo& layout = info(part.type);
        require(part.bytes != nullptr && part.rows > 0 && part.columns > 0,
                "A part of a weight is empty: " + number(part.rows) + " rows of " + number(part.columns) +
                    ".");
        require(part.columns == weight.columns,
                "The parts of a weight differ in width: " + number(weight.columns) + " and " +
                    number(part.columns) + " columns.");
        require(part.columns % layout.block_elements == 0,
                "Rows of " + number(part.columns) + " weights are no whole number of " + layout.name +
                    " blocks of " + std::to_string(layout.block_elements) + ".");
        weight.rows += part.rows;
        weight.bytes +=
            static_cast<size_t>(part.rows) * row_bytes(part.type, static_cast<size_t>(part.columns));
        weight.parts.push_back(part);
    }
    weights_.emplace(++last_id_, std::move(weight));
    return {last_id_};
}

void ReferenceBackend::StackedWeight::decode_row(int64_t row, float* out) const {
    auto part = parts.begin();
    for (; row >= part->rows; ++part)
        row -= part->rows;
    const auto width = static_cast<size_t>(columns);
    decode(part->type, part->bytes + static_cast<size_t>(row) * row_bytes(part->type, width), out, width);
}

void ReferenceBackend::release(Weight weight) {
    if (!weight)
        return;
    synchronize();
    weight_of(weight);
    weights_.erase(weight.id);
}

size_t ReferenceBackend::weight_bytes(Weight weight) const {
    return weight_of(weight).bytes;
}

// The cache

KvCache ReferenceBackend::create_kv_cache(const KvCacheSpec& spec) {
    auto cache = std::make_shared<Cache>();
    cache->spec = spec;
    const size_t block_bytes = kv_block_bytes(spec);
    require(spec.blocks > 0, "A cache needs at least one block, not " + number(spec.blocks) + ".");
    cache->memory =
        take_memory(saturating_product(block_bytes, static_cast<size_t>(spec.blocks)), "keys and values");
    caches_.emplace(++last_id_, std::move(cache));
    return {last_id_};
}

void ReferenceBackend::release(KvCache cache) {
    if (!cache)
        return;
    synchronize();
    give_back(cache_of(cache).memory);
    caches_.erase(cache.id);
}

size_t ReferenceBackend::kv_block_bytes(const KvCacheSpec& spec) const {
    require(spec.layers > 0 && spec.kv_heads > 0 && spec.key_length > 0 && spec.value_length > 0 &&
                spec.block_size > 0,
            "A cache of " + number(spec.layers) + " layers, " + number(spec.kv_heads) + " heads of " +
                number(spec.key_length) + " and " + number(spec.value_length) + " elements in blocks of " +
                number(spec.block_size) + " tokens holds nothing.");
    return Cache{spec, {}}.block_bytes();
}

std::byte* ReferenceBackend::block_of(KvCache cache, int32_t block, size_t host_bytes) const {
    const Cache& blocks = cache_of(cache);
    require(block >= 0 && block < blocks.spec.blocks, "Block " + number(block) + " is not one of the " +
                                                          number(blocks.spec.blocks) + " of this cache.");
    require(host_bytes == blocks.block_bytes(), "A block has " + std::to_string(blocks.block_bytes()) +
                                                    " bytes, not " + std::to_string(host_bytes) + ".");
    return blocks.block(block);
}

void ReferenceBackend::copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) {
    const Cache& blocks = cache_of(cache);
    for (const BlockCopy& copy : copies) {
        block_of(cache, copy.from, blocks.block_bytes());
        block_of(cache, copy.to, blocks.block_bytes());
        for (const BlockCopy& other : copies)
            require(&other == &copy || (other.from != copy.to && other.to != copy.to),
                    "Block " + number(copy.to) + " takes part in two copies of one call.");
    }
    enqueue(&KernelProfile::other_ns, [&blocks, list = std::vector(copies.begin(), copies.end())] {
        for (const BlockCopy& copy : list)
            std::memmove(blocks.block(copy.to), blocks.block(copy.from), blocks.block_bytes());
    });
}

void ReferenceBackend::download_kv_block(KvCache cache, int32_t block, std::span<std::byte> bytes) {
    const std::byte* content = block_of(cache, block, bytes.size());
    synchronize();
    std::copy(content, content + bytes.size(), bytes.begin());
}

void ReferenceBackend::upload_kv_block(KvCache cache, int32_t block, std::span<const std::byte> bytes) {
    std::byte* content = block_of(cache, block, bytes.size());
    synchronize();
    std::copy(bytes.begin(), bytes.end(), content);
}

// The forward pass

void ReferenceBackend::begin(const ForwardBatch& batch) {
    const auto rows = static_cast<int32_t>(batch.positions.size());
    require(batch.ids.size() == batch.positions.size() && batch.kv_slots.size() == batch.positions.size(),
            "A batch has " + std::to_string(batch.ids.size()) + " ids, " +
                std::to_string(batch.positions.size()) + " positions and " +
                std::to_string(batch.kv_slots.size()) + " slots: they must be as many.");
    int32_t next_row = 0;
    for (const Span& span : batch.spans) {
        require(span.first_row >= next_row && span.rows > 0 && span.rows <= rows - span.first_row,
                "A span of " + number(span.rows) + " rows from row " + number(span.first_row) +
                    " overlaps another or the end of a batch of " + number(rows) + " rows.");
        next_row = span.first_row + span.rows;
        for (int32_t i = 0; i < span.rows; ++i)
            require(batch.positions[static_cast<size_t>(span.first_row + i)] == span.first_position + i,
                    "The position of row " + number(span.first_row + i) + " is not its span's " +
                        number(span.first_position + i) + ".");
    }
    for (const int32_t row : batch.output_rows)
        require(row >= 0 && row < rows,
                "Output row " + number(row) + " is outside of a batch of " + number(rows) + " rows.");

    const auto copy = [](const auto& span) { return std::vector(span.begin(), span.end()); };
    batch_ = std::make_shared<const Batch>(Batch{copy(batch.ids), copy(batch.positions), copy(batch.kv_slots),
                                                 copy(batch.spans), copy(batch.block_tables),
                                                 copy(batch.output_rows)});
}

void ReferenceBackend::embed(const EmbedOp& op) {
    const auto batch = current_batch("embed");
    const StackedWeight& table = weight_of(op.table);
    const auto columns = static_cast<size_t>(table.columns);
    for (const int32_t id : batch->ids)
        require(id >= 0 && id < table.rows,
                "Token " + number(id) + " is outside of a vocabulary of " + number(table.rows) + ".");
    float* out = floats(op.out, batch->rows() * columns, "embed's out");

    enqueue(&KernelProfile::other_ns, [=, &table, scale = op.scale] {
        for (size_t row = 0; row < batch->rows(); ++row) {
            float* embedding = out + row * columns;
            table.decode_row(batch->ids[row], embedding);
            for (size_t i = 0; i < columns; ++i)
                embedding[i] *= scale;
        }
    });
}

void ReferenceBackend::linear(const LinearOp& op) {
    const StackedWeight& weight = weight_of(op.weight);
    require(op.rows >= 0, "linear cannot compute " + number(op.rows) + " rows.");
    const auto rows = static_cast<size_t>(op.rows);
    const auto columns = static_cast<size_t>(weight.columns);
    const auto out_columns = static_cast<size_t>(weight.rows);
    const size_t x_columns = op.prologue == Prologue::silu_gate ? 2 * columns : columns;
    const float* x = floats(op.x, rows * x_columns, "linear's x");
    float* out = floats(op.out, rows * out_columns, "linear's out");
    const float* bias = op.bias ? floats(op.bias, out_columns, "linear's bias") : nullptr;
    const float* norm =
        op.prologue == Prologue::rms_norm ? floats(op.norm, columns, "linear's norm") : nullptr;

    // The prologue and the product are two steps, with the prepared rows between them.
    const auto prepared = std::make_shared<std::vector<float>>();
    enqueue(norm ? &KernelProfile::norm_ns : &KernelProfile::other_ns,
            [=, prologue = op.prologue, eps = op.eps] {
                prepared->resize(rows * columns);
                for (size_t row = 0; row < rows; ++row) {
                    const std::span from(x + row * x_columns, x_columns);
                    const std::span to(prepared->data() + row * columns, columns);
                    switch (prologue) {
                    case Prologue::none:
                        std::copy(from.begin(), from.end(), to.begin());
                        break;
                    case Prologue::rms_norm:
                        reference::rms_norm(from, {norm, columns}, eps, to);
                        break;
                    case Prologue::silu_gate:
                        reference::silu_gate(from.first(columns), from.last(columns), to);
                        break;
                    }
                }
            });
    enqueue(&KernelProfile::matmul_ns, [=, &weight, accumulate = op.accumulate] {
        std::vector<float> weight_row(columns);
        for (size_t column = 0; column < out_columns; ++column) {
            weight.decode_row(static_cast<int64_t>(column), weight_row.data());
            for (size_t row = 0; row < rows; ++row) {
                double sum = reference::dot({prepared->data() + row * columns, columns}, weight_row);
                if (bias)
                    sum += bias[column];
                float& result = out[row * out_columns + column];
                result = accumulate ? static_cast<float>(result + sum) : static_cast<float>(sum);
            }
        }
    });
}

void ReferenceBackend::rope_store(const RopeStoreOp& op) {
    const auto batch = current_batch("rope_store");
    const Cache& cache = cache_of(op.cache);
    const KvCacheSpec& spec = cache.spec;
    require(op.layer >= 0 && op.layer < spec.layers,
            "Layer " + number(op.layer) + " is not one of the cache's " + number(spec.layers) + ".");
    require(op.dimensions >= 0 && op.dimensions % 2 == 0 && op.dimensions <= spec.key_length,
            "A rotation of " + number(op.dimensions) + " of " + number(spec.key_length) +
                " elements: it must be an even number of them.");
    const auto heads = static_cast<size_t>(op.heads);
    const auto kv_heads = static_cast<size_t>(spec.kv_heads);
    const auto key_length = static_cast<size_t>(spec.key_length);
    const auto value_length = static_cast<size_t>(spec.value_length);
    const size_t width = (heads + kv_heads) * key_length + kv_heads * value_length;
    float* qkv = floats(op.qkv, batch->rows() * width, "rope_store's qkv");

    int32_t largest_position = -1;
    for (size_t row = 0; row < batch->rows(); ++row) {
        const int32_t slot = batch->kv_slots[row];
        require(slot >= 0 && slot / spec.block_size < spec.blocks,
                "Slot " + number(slot) + " lies outside of a cache of " + number(spec.blocks) +
                    " blocks of " + number(spec.block_size) + ".");
        require(batch->positions[row] >= 0, "Position " + number(batch->positions[row]) + " is negative.");
        largest_position = std::max(largest_position, batch->positions[row]);
    }
    const auto dimensions = static_cast<size_t>(op.dimensions);
    const float* rope = op.rope ? floats(op.rope, static_cast<size_t>(largest_position + 1) * dimensions,
                                         "rope_store's rope table")
                                : nullptr;

    enqueue(&KernelProfile::other_ns, [=, &cache, &spec, layer = op.layer, style = op.style] {
        std::vector<float> key(key_length);
        for (size_t row = 0; row < batch->rows(); ++row) {
            float* queries = qkv + row * width;
            float* keys = queries + heads * key_length;
            const float* values = keys + kv_heads * key_length;
            if (rope) {
                const std::span angles(rope + static_cast<size_t>(batch->positions[row]) * dimensions,
                                       dimensions);
                for (size_t head = 0; head < heads + kv_heads; ++head)
                    reference::turn({queries + head * key_length, key_length}, angles, style);
            }
            for (size_t head = 0; head < kv_heads; ++head) {
                const int32_t slot = batch->kv_slots[row];
                const int kv_head = static_cast<int>(head);
                std::copy_n(keys + head * key_length, key_length, key.begin());
                if (rotates_keys(spec.type))
                    rotate(key.data(), key_length);
                encode_kv_row(spec.type, key.data(), cache.key(layer, slot, kv_head), key_length);
                encode_kv_row(spec.type, values + head * value_length, cache.value(layer, slot, kv_head),
                              value_length);
            }
        }
    });
}

void ReferenceBackend::attention(const AttentionOp& op) {
    const auto batch = current_batch("attention");
    const Cache& cache = cache_of(op.cache);
    const KvCacheSpec& spec = cache.spec;
    require(op.layer >= 0 && op.layer < spec.layers,
            "Layer " + number(op.layer) + " is not one of the cache's " + number(spec.layers) + ".");
    require(op.heads > 0 && op.heads % spec.kv_heads == 0,
            number(op.heads) + " query heads cannot share " + number(spec.kv_heads) + " key heads evenly.");
    const auto heads = static_cast<size_t>(op.heads);
    const auto kv_heads = static_cast<size_t>(spec.kv_heads);
    const auto key_length = static_cast<size_t>(spec.key_length);
    const auto value_length = static_cast<size_t>(spec.value_length);
    const size_t width = (heads + kv_heads) * key_length + kv_heads * value_length;
    const float* qkv = floats(op.qkv, batch->rows() * width, "attention's qkv");
    float* out = floats(op.out, batch->rows() * heads * value_length, "attention's out");

    for (const Span& span : batch->spans) {
        const int32_t tokens = span.first_position + span.rows;
        const int32_t blocks = (tokens + spec.block_size - 1) / spec.block_size;
        const auto table_size = static_cast<int32_t>(batch->block_tables.size());
        require(span.table_offset >= 0 && blocks <= table_size - span.table_offset,
                "A span of " + number(tokens) + " tokens needs " + number(blocks) + " blocks from entry " +
                    number(span.table_offset) + " of a table of " + number(table_size) + ".");
        for (int32_t i = 0; i < blocks; ++i)
            block_of(op.cache, batch->block_tables[static_cast<size_t>(span.table_offset + i)],
                     cache.block_bytes());
        for (int32_t i = 0; i < span.rows; ++i) {
            const int32_t slot = slot_of(*batch, span, span.first_position + i, spec.block_size);
            require(batch->kv_slots[static_cast<size_t>(span.first_row + i)] == slot,
                    "Row " + number(span.first_row + i) + " is stored at slot " +
                        number(batch->kv_slots[static_cast<size_t>(span.first_row + i)]) +
                        ", but its block table reads slot " + number(slot) + ".");
        }
    }

    enqueue(&KernelProfile::attention_ns, [=, &cache, &spec, layer = op.layer, scale = op.scale] {
        for (const Span& span : batch->spans) {
            // The span's keys and values of all tokens, [kv_heads, tokens, length].
            const auto tokens = static_cast<size_t>(span.first_position + span.rows);
            std::vector<float> keys(kv_heads * tokens * key_length);
            std::vector<float> values(kv_heads * tokens * value_length);
            for (size_t head = 0; head < kv_heads; ++head)
                for (size_t token = 0; token < tokens; ++token) {
                    const int32_t slot = slot_of(*batch, span, static_cast<int32_t>(token), spec.block_size);
                    const int kv_head = static_cast<int>(head);
                    decode_kv_row(spec.type, cache.key(layer, slot, kv_head),
                                  &keys[(head * tokens + token) * key_length], key_length);
                    decode_kv_row(spec.type, cache.value(layer, slot, kv_head),
                                  &values[(head * tokens + token) * value_length], value_length);
                }

            std::vector<float> query(key_length);
            for (size_t i = 0; i < static_cast<size_t>(span.rows); ++i) {
                const size_t row = static_cast<size_t>(span.first_row) + i;
                const size_t visible = static_cast<size_t>(span.first_position) + i + 1;
                for (size_t head = 0; head < heads; ++head) {
                    const size_t kv_head = head * kv_heads / heads;
                    std::copy_n(qkv + row * width + head * key_length, key_length, query.begin());
                    if (rotates_keys(spec.type))
                        rotate(query.data(), key_length);
                    reference::attend(query, {&keys[kv_head * tokens * key_length], visible * key_length},
                                      {&values[kv_head * tokens * value_length], visible * value_length},
                                      scale, {out + (row * heads + head) * value_length, value_length});
                }
            }
        }
    });
}

void ReferenceBackend::gather(const GatherOp& op) {
    const auto batch = current_batch("gather");
    require(op.columns > 0, "gather cannot copy rows of " + number(op.columns) + " columns.");
    const auto columns = static_cast<size_t>(op.columns);
    const float* x = floats(op.x, batch->rows() * columns, "gather's x");
    float* out = floats(op.out, batch->output_rows.size() * columns, "gather's out");
    require(op.x.id != op.out.id, "gather cannot write to the buffer that it reads.");

    enqueue(&KernelProfile::other_ns, [=] {
        for (size_t i = 0; i < batch->output_rows.size(); ++i)
            std::copy_n(x + static_cast<size_t>(batch->output_rows[i]) * columns, columns, out + i * columns);
    });
}

// The queue

void ReferenceBackend::enqueue(uint64_t KernelProfile::*family, std::function<void()> run) {
    queue_.push_back({family, std::move(run)});
}

void ReferenceBackend::synchronize() {
    const std::vector<Command> commands = std::exchange(queue_, {});
    for (const Command& command : commands) {
        const auto start = std::chrono::steady_clock::now();
        command.run();
        const auto taken = std::chrono::steady_clock::now() - start;
        if (profiling_)
            profile_.*command.family += static_cast<uint64_t>(std::chrono::nanoseconds(taken).count());
    }
}

void ReferenceBackend::set_profiling(bool on) {
    synchronize();
    profiling_ = on;
}

KernelProfile ReferenceBackend::take_profile() {
    return std::exchange(profile_, {});
}

int32_t ReferenceBackend::slot_of(const Batch& batch, const Span& span, int32_t position, int block_size) {
    const auto entry = static_cast<size_t>(span.table_offset + position / block_size);
    return batch.block_tables[entry] * block_size + position % block_size;
}

// Handles

const ReferenceBackend::Memory& ReferenceBackend::memory_of(Buffer buffer) const {
    const auto entry = buffers_.find(buffer.id);
    require(entry != buffers_.end(), "Handle " + number(buffer.id) + " names no buffer, or a released one.");
    return entry->second;
}

float* ReferenceBackend::floats(Buffer buffer, size_t count, const char* what) const {
    require(static_cast<bool>(buffer), std::string("No buffer is given for ") + what + ".");
    const Memory& memory = memory_of(buffer);
    require(count <= memory.size / sizeof(float), std::string("The buffer for ") + what + " holds " +
                                                      std::to_string(memory.size / sizeof(float)) +
                                                      " floats, not " + std::to_string(count) + ".");
    return reinterpret_cast<float*>(memory.bytes.get());
}

const ReferenceBackend::StackedWeight& ReferenceBackend::weight_of(Weight weight) const {
    const auto entry = weights_.find(weight.id);
    require(entry != weights_.end(), "Handle " + number(weight.id) + " names no weight, or a released one.");
    return entry->second;
}

ReferenceBackend::Cache& ReferenceBackend::cache_of(KvCache cache) const {
    const auto entry = caches_.find(cache.id);
    require(entry != caches_.end(), "Handle " + number(cache.id) + " names no cache, or a released one.");
    return *entry->second;
}

std::shared_ptr<const ReferenceBackend::Batch> ReferenceBackend::current_batch(const char* operation) const {
    require(batch_ != nullptr, std::string(operation) + " needs a batch: call begin() first.");
    return batch_;
}

} // namespace orrery::kernels
