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

namespace {

/// Memory for a little more than asked for, so that a list that grows from pass to pass moves seldom.
template <class T>
void assign(std::vector<T>& list, std::span<const T> values) {
    if (values.size() > list.capacity())
        list.reserve(values.size() + values.size() / 2);
    list.assign(values.begin(), values.end());
}

} // namespace

Program::Program(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), threads_(static_cast<size_t>(pool.threads())) {
    batches_.push_back(std::make_unique<Batch>());
    batch_ = batches_.front().get();
}

Program::~Program() = default;

void Program::begin(const ForwardBatch& batch) {
    if (batch_count_ == batches_.size())
        batches_.push_back(std::make_unique<Batch>());
    Batch& copy = *batches_[batch_count_];
    assign(copy.ids, batch.ids);
    assign(copy.positions, batch.positions);
    assign(copy.spans, batch.spans);
    assign(copy.output_rows, batch.output_rows);
    copy.layout_count = batch.layouts.size();
    if (copy.layouts.size() < copy.layout_count)
        copy.layouts.resize(copy.layout_count);
    for (size_t i = 0; i < copy.layout_count; ++i) {
        assign(copy.layouts[i].slots, batch.layouts[i].kv_slots);
        assign(copy.layouts[i].table_offsets, batch.layouts[i].table_offsets);
        assign(copy.layouts[i].block_tables, batch.layouts[i].block_tables);
    }
    copy.padding.clear();
    int32_t next_row = 0;
    const auto pad_to = [&copy, &next_row](int32_t end) {
        for (; next_row < end; ++next_row)
            copy.padding.push_back(next_row);
    };
    for (const Span& span : batch.spans) {
        pad_to(span.first_row);
        next_row = span.first_row + span.rows;
    }
    pad_to(static_cast<int32_t>(batch.ids.size()));
    copy.plan_count = 0;
    copy.positions_end = 0;
    for (const int32_t position : batch.positions)
        copy.positions_end = std::max<int64_t>(copy.positions_end, int64_t{position} + 1);
    batch_ = &copy;
    ++batch_count_;
}

void Program::grow_scratch(size_t bytes) {
    for (Thread& thread : threads_)
        thread.scratch.grow(bytes);
}

int64_t Program::fair_chunk(int64_t items) const {
    return std::max<int64_t>(1, items / (int64_t{pool_.threads()} * 4));
}

const Program::Layout& Program::layout(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= batch_->layout_count)
        throw Error("The batch has " + std::to_string(batch_->layout_count) +
                    " block layouts: there is no layout " + std::to_string(index) + ".");
    return batch_->layouts[static_cast<size_t>(index)];
}

void Program::embed(const EmbedArguments& a) {
    for (const int32_t id : batch_->ids)
        if (id < 0 || id >= a.table->rows)
            throw Error("Token " + std::to_string(id) + " is not one of the " +
                        std::to_string(a.table->rows) + " tokens of the embedding table.");
    if (a.positions != nullptr) {
        for (const int32_t position : batch_->positions)
            if (position + a.position_offset < 0 || position + a.position_offset >= a.positions->rows)
                throw Error("Position " + std::to_string(position) + " + " +
                            std::to_string(a.position_offset) + " is not one of the " +
                            std::to_string(a.positions->rows) + " positions of the embedding table.");
        grow_scratch(static_cast<size_t>(a.table->columns) * sizeof(float));
    }
    record(&KernelProfile::other_ns, rows(), fair_chunk(rows()),
           [this, a, batch = batch_](int64_t first, int64_t last, int thread) {
               const int64_t columns = a.table->columns;
               for (int64_t row = first; row < last; ++row) {
                   const auto index = static_cast<size_t>(row);
                   float* target = a.out.row(row);
                   a.table->decode_row(batch->ids[index], target);
                   if (a.scale != 1.0f)
                       for (int64_t i = 0; i < columns; ++i)
                           target[i] *= a.scale;
                   if (a.positions == nullptr)
                       continue;
                   auto* position = scratch<float>(thread);
                   a.positions->decode_row(batch->positions[index] + a.position_offset, position);
                   for (int64_t i = 0; i < columns; ++i)
                       target[i] += position[i];
               }
           });
}

void Program::rope_store(const RopeStoreArguments& a) {
    const KvCacheSpec& spec = a.store->spec();
    const int32_t* kv_slots = nullptr;
    if (a.k) {
        const std::vector<int32_t>& list = layout(a.layout).slots;
        const int64_t slots = int64_t{spec.blocks} * spec.block_size;
        if (static_cast<int64_t>(list.size()) != rows())
            throw Error("The batch has " + std::to_string(rows()) + " rows and " +
                        std::to_string(list.size()) + " slots for keys and values.");
        for (const int32_t slot : list)
            if (slot < -1 || slot >= slots)
                throw Error("Slot " + std::to_string(slot) + " is not one of the " + std::to_string(slots) +
                            " slots of the key/value cache.");
        kv_slots = list.data();
    }
    grow_scratch(2 * align_up(static_cast<size_t>(spec.key_length), 32) * sizeof(float));
    record(&KernelProfile::other_ns, rows(), fair_chunk(rows()),
           [this, a, kv_slots, batch = batch_](int64_t first, int64_t last, int thread) {
               const KvCacheSpec& s = a.store->spec();
               const auto turn =
                   a.rope.style == RopeStyle::interleaved ? kernels_.rope_interleaved : kernels_.rope_halves;
               const auto norm_heads = [&](const NormArguments& norm, float* x, int heads, int length) {
                   for (int h = 0; norm.kind != NormKind::none && h < heads; ++h)
                       kernels_.norm(norm, x + int64_t{h} * length, x + int64_t{h} * length, length);
               };
               const auto prepare = [&](const NormArguments& norm, float* x, int heads,
                                        const float* rotation) {
                   if (!a.norm_after_rope)
                       norm_heads(norm, x, heads, s.key_length);
                   if (rotation != nullptr)
                       turn(x + a.rope.first, heads, s.key_length, rotation, a.rope.dimensions);
                   if (a.norm_after_rope)
                       norm_heads(norm, x, heads, s.key_length);
               };
               for (int64_t row = first; row < last; ++row) {
                   const auto index = static_cast<size_t>(row);
                   const int64_t position = batch->positions[index];
                   const float* rotation =
                       a.rope_table != nullptr ? a.rope_table + position * a.rope.dimensions : nullptr;
                   float* queries = a.q.row(row);
                   prepare(a.q_norm, queries, a.heads, rotation);
                   if (a.query_scale != nullptr)
                       kernels_.soft_cap(queries, a.query_scale[position], 0.0f, queries,
                                         int64_t{a.heads} * s.key_length);
                   if (!a.k)
                       continue;
                   float* keys = a.k.row(row);
                   float* values = a.v ? a.v.row(row) : nullptr;
                   prepare(a.k_norm, keys, s.kv_heads, rotation);
                   if (values != nullptr)
                       norm_heads(a.v_norm, values, s.kv_heads, s.value_length);
                   const int32_t slot = kv_slots[index];
                   for (int h = 0; slot >= 0 && h < s.kv_heads; ++h)
                       a.store->store(a.layer, h, slot, keys + int64_t{h} * s.key_length,
                                      values != nullptr ? values + int64_t{h} * s.value_length : nullptr,
                                      kernels_, scratch<float>(thread));
               }
           });
}

void Program::gather(Rows x, Rows out, int64_t columns) {
    const int64_t wanted = output_rows();
    record(&KernelProfile::other_ns, wanted, fair_chunk(wanted),
           [batch = batch_, x, out, columns](int64_t first, int64_t last, int) {
               for (int64_t i = first; i < last; ++i)
                   std::memcpy(out.row(i), x.row(batch->output_rows[static_cast<size_t>(i)]),
                               static_cast<size_t>(columns) * sizeof(float));
           });
}

void Program::copy_blocks(KvStore& store, std::span<const BlockCopy> copies) {
    record(&KernelProfile::other_ns, static_cast<int64_t>(copies.size()), 1,
           [store = &store, list = arena_.put_all(copies).data()](int64_t first, int64_t last, int) {
               for (const BlockCopy* copy = list + first; copy < list + last; ++copy)
                   if (copy->from != copy->to)
                       std::memcpy(store->block(copy->to), store->block(copy->from), store->block_bytes());
           });
}

void Program::copy_blocks_out(KvStore& store, std::span<const BlockTransfer> transfers, std::byte* host) {
    record(&KernelProfile::other_ns, static_cast<int64_t>(transfers.size()), 1,
           [store = &store, host, list = arena_.put_all(transfers).data()](int64_t first, int64_t last, int) {
               for (const BlockTransfer* t = list + first; t < list + last; ++t)
                   std::memcpy(host + t->host_offset, store->block(t->block), store->block_bytes());
           });
}

void Program::copy_blocks_in(KvStore& store, std::span<const BlockTransfer> transfers,
                             const std::byte* host) {
    record(&KernelProfile::other_ns, static_cast<int64_t>(transfers.size()), 1,
           [store = &store, host, list = arena_.put_all(transfers).data()](int64_t first, int64_t last, int) {
               for (const BlockTransfer* t = list + first; t < list + last; ++t)
                   std::memcpy(store->block(t->block), host + t->host_offset, store->block_bytes());
           });
}

void Program::run() {
    runs_ += phases_.empty() ? 0 : 1;
    if (!profiling_) {
        pool_.run(phases_);
    } else {
        using Clock = std::chrono::steady_clock;
        Clock::time_point last = Clock::now();
        pool_.run(phases_, [&](size_t phase) {
            const Clock::time_point now = Clock::now();
            profile_.*families_[phase] += static_cast<uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count());
            last = now;
        });
    }
    phases_.clear();
    families_.clear();
    arena_.clear();
    // Operations that follow may still refer to the last batch.
    std::swap(batches_[0], batches_[batch_count_ - 1]);
    batch_count_ = 1;
}

KernelProfile Program::take_profile() {
    return std::exchange(profile_, {});
}

} // namespace orrery::kernels::cpu
