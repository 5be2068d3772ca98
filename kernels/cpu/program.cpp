#include "kernels/cpu/program.h"

#include "kernels/error.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace orrery::kernels::cpu {

void Program::Scratch::grow(size_t wanted) {
    if (wanted <= bytes)
        return;
    // A little more than asked for, so that a batch that grows row by row does not move it each time.
    const size_t larger = wanted + wanted / 4;
    // What is queued already may still run with what is there.
    Memory fresh = allocate_memory(larger);
    if (fresh == nullptr)
        throw OutOfMemory("Not enough memory for the scratch space of a batch: " + std::to_string(larger) +
                          " bytes are needed.");
    memory = std::move(fresh);
    bytes = larger;
}

Program::Program(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      batch_(std::make_shared<Batch>()),
      threads_(static_cast<size_t>(pool.threads())) {}

void Program::begin(const ForwardBatch& batch) {
    auto copy = std::make_shared<Batch>();
    copy->ids.assign(batch.ids.begin(), batch.ids.end());
    copy->positions.assign(batch.positions.begin(), batch.positions.end());
    copy->slots.assign(batch.kv_slots.begin(), batch.kv_slots.end());
    copy->spans.assign(batch.spans.begin(), batch.spans.end());
    copy->block_tables.assign(batch.block_tables.begin(), batch.block_tables.end());
    copy->output_rows.assign(batch.output_rows.begin(), batch.output_rows.end());
    for (const int32_t position : batch.positions)
        copy->positions_end = std::max<int64_t>(copy->positions_end, int64_t{position} + 1);
    batch_ = std::move(copy);
}

void Program::record(Family family, int64_t items, int64_t chunk,
                     std::function<void(int64_t, int64_t, int)> body) {
    if (items <= 0)
        return;
    families_.resize(phases_.size()); // where memory ran out in between, one too many is left
    families_.push_back(family);
    phases_.push_back({std::move(body), items, std::max<int64_t>(1, chunk)});
}

void Program::grow_scratch(size_t bytes) {
    for (Thread& thread : threads_)
        thread.scratch.grow(bytes);
}

int64_t Program::fair_chunk(int64_t items) const {
    return std::max<int64_t>(1, items / (int64_t{pool_.threads()} * 4));
}

void Program::embed(const CpuWeight& table, float* out, float scale) {
    for (const int32_t id : batch_->ids)
        if (id < 0 || id >= table.rows)
            throw Error("Token " + std::to_string(id) + " is not one of the " + std::to_string(table.rows) +
                        " tokens of the embedding table.");
    record(&KernelProfile::other_ns, rows(), fair_chunk(rows()),
           [batch = batch_, &table, out, scale](int64_t first, int64_t last, int) {
               for (int64_t row = first; row < last; ++row) {
                   float* target = out + row * table.columns;
                   table.decode_row(batch->ids[static_cast<size_t>(row)], target);
                   if (scale != 1.0f)
                       for (int64_t i = 0; i < table.columns; ++i)
                           target[i] *= scale;
               }
           });
}

void Program::rope_store(const RopeStoreOp& op, KvStore& store, float* qkv, const float* rope) {
    const KvCacheSpec& spec = store.spec();
    const int64_t slots = int64_t{spec.blocks} * spec.block_size;
    for (const int32_t slot : batch_->slots)
        if (slot < 0 || slot >= slots)
            throw Error("Slot " + std::to_string(slot) + " is not one of the " + std::to_string(slots) +
                        " slots of the key/value cache.");
    grow_scratch(2 * align_up(static_cast<size_t>(spec.key_length), 32) * sizeof(float));
    const int64_t key_length = spec.key_length;
    const int64_t value_length = spec.value_length;
    const int64_t heads = op.heads;
    const int64_t columns = (heads + spec.kv_heads) * key_length + spec.kv_heads * value_length;
    const auto turn = op.style == RopeStyle::interleaved ? kernels_.rope_interleaved : kernels_.rope_halves;
    record(&KernelProfile::other_ns, rows(), fair_chunk(rows()),
           [=, this, batch = batch_, &store, layer = op.layer,
            dimensions = op.dimensions](int64_t first, int64_t last, int thread) {
               const KvCacheSpec& s = store.spec();
               auto* scratch = threads_[static_cast<size_t>(thread)].scratch.as<float>();
               for (int64_t row = first; row < last; ++row) {
                   const auto index = static_cast<size_t>(row);
                   float* x = qkv + row * columns;
                   if (rope != nullptr)
                       turn(x, heads + s.kv_heads, key_length,
                            rope + int64_t{batch->positions[index]} * dimensions, dimensions);
                   const float* keys = x + heads * key_length;
                   const float* values = keys + s.kv_heads * key_length;
                   for (int h = 0; h < s.kv_heads; ++h)
                       store.store(layer, h, batch->slots[index], keys + h * key_length,
                                   values + h * value_length, kernels_, scratch);
               }
           });
}

void Program::gather(const float* x, float* out, int64_t columns) {
    const int64_t wanted = output_rows();
    record(&KernelProfile::other_ns, wanted, fair_chunk(wanted),
           [batch = batch_, x, out, columns](int64_t first, int64_t last, int) {
               for (int64_t i = first; i < last; ++i)
                   std::memcpy(out + i * columns,
                               x + int64_t{batch->output_rows[static_cast<size_t>(i)]} * columns,
                               static_cast<size_t>(columns) * sizeof(float));
           });
}

void Program::copy_blocks(KvStore& store, std::span<const BlockCopy> copies) {
    std::vector<BlockCopy> list(copies.begin(), copies.end());
    const auto count = static_cast<int64_t>(list.size());
    record(&KernelProfile::other_ns, count, 1,
           [&store, list = std::move(list)](int64_t first, int64_t last, int) {
               for (int64_t i = first; i < last; ++i) {
                   const BlockCopy& copy = list[static_cast<size_t>(i)];
                   if (copy.from != copy.to)
                       std::memcpy(store.block(copy.to), store.block(copy.from), store.block_bytes());
               }
           });
}

void Program::run() {
    if (phases_.empty())
        return;
    if (!profiling_) {
        pool_.run(std::exchange(phases_, {}));
    } else {
        using Clock = std::chrono::steady_clock;
        Clock::time_point last = Clock::now();
        pool_.run(std::exchange(phases_, {}), [&](size_t phase) {
            const Clock::time_point now = Clock::now();
            profile_.*families_[phase] += static_cast<uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count());
            last = now;
        });
    }
    families_.clear();
}

KernelProfile Program::take_profile() {
    return std::exchange(profile_, {});
}

} // namespace orrery::kernels::cpu
