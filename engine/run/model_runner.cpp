#include "engine/run/model_runner.h"

#include "engine/platform/host_array.h"
#include "kernels/error.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace orrery {

using Clock = std::chrono::steady_clock;

ModelRunner::Caches::Caches(kernels::Backend& its_backend, std::span<const kernels::KvCacheSpec> specs)
    : backend(its_backend) {
    handles.reserve(specs.size());
    try {
        for (const kernels::KvCacheSpec& spec : specs) {
            offsets.push_back(block_bytes);
            block_bytes += backend.kv_block_bytes(spec);
            handles.push_back(backend.create_kv_cache(spec));
        }
    } catch (...) {
        for (const kernels::KvCache handle : handles)
            backend.release(handle);
        throw;
    }
}

ModelRunner::Caches::~Caches() {
    for (const kernels::KvCache handle : handles)
        backend.release(handle);
}

ModelRunner::ModelRunner(Decoder& decoder, kernels::Backend& backend,
                         std::span<const kernels::KvCacheSpec> caches, int max_positions)
    : decoder_(decoder),
      backend_(backend),
      block_size_(caches.front().block_size),
      max_positions_(max_positions),
      caches_(backend, caches),
      device_results_(backend),
      device_top_(backend) {
    // The first measure of what a swap costs: one block, there and back.
    const StepPlan::Swap first = {.block = 0, .slot = 0};
    HostSwap swap(backend, caches_.block_bytes, caches_.block_bytes, 1);
    std::vector<int32_t> slots;
    if (!swap.hold({&first.block, 1}, 0, slots))
        throw OutOfMemory("There is no host memory for a block of the key/value cache, " +
                          std::to_string(caches_.block_bytes) + " bytes.");
    copy_out({&first, 1}, swap);
    copy_in({&first, 1}, swap);
}

void ModelRunner::reserve(int max_rows, int max_outputs) {
    max_rows = std::max(max_rows, max_rows_);
    max_outputs = std::max(max_outputs, max_outputs_);
    if (max_rows == max_rows_ && max_outputs == max_outputs_)
        return;
    if (row_.empty())
        row_ = platform::host_array<float>(size_t(decoder_.config().vocab), "a row of logits");
    decoder_.reserve(max_rows, max_outputs, max_positions_);
    for (std::vector<int32_t>* list : {&ids_, &positions_, &slots_})
        list->reserve(size_t(max_rows));
    output_rows_.reserve(size_t(max_outputs));
    spans_.reserve(size_t(max_outputs));
    block_tables_.reserve(size_t(max_outputs) * size_t(max_positions_ / block_size_ + 1));
    max_rows_ = max_rows;
    max_outputs_ = max_outputs;
}

void ModelRunner::prepare(const StepPlan& plan, const HostSwap& swap, bool all_logits) {
    copy_out(plan.swap_outs, swap);
    copy_in(plan.swap_ins, swap);
    if (!plan.copies.empty())
        for (const kernels::KvCache cache : caches_.handles)
            backend_.copy_kv_blocks(cache, plan.copies);

    ids_.clear();
    positions_.clear();
    slots_.clear();
    block_tables_.clear();
    output_rows_.clear();
    spans_.clear();
    table_offsets_.clear();
    for (const StepPlan::Part& part : plan.parts) {
        const Sequence& sequence = *part.sequence;
        const auto& blocks = sequence.table.blocks;
        spans_.push_back({int32_t(ids_.size()), part.tokens, part.first});
        table_offsets_.push_back(int32_t(block_tables_.size()));
        for (int32_t position = part.first; position < part.first + part.tokens; ++position) {
            if (all_logits)
                output_rows_.push_back(int32_t(ids_.size()));
            ids_.push_back(sequence.tokens[size_t(position)]);
            positions_.push_back(position);
            slots_.push_back(blocks[size_t(position / block_size_)] * block_size_ + position % block_size_);
        }
        if (part.catches_up() && !all_logits)
            output_rows_.push_back(int32_t(ids_.size()) - 1);
        const int32_t used = (part.first + part.tokens + block_size_ - 1) / block_size_;
        block_tables_.insert(block_tables_.end(), blocks.begin(), blocks.begin() + used);
    }
}

void ModelRunner::run() {
    const kernels::BlockLayout layout = {slots_, table_offsets_, block_tables_};
    decoder_.forward({ids_, positions_, spans_, {&layout, 1}, output_rows_, {}}, caches_.handles);
    backend_.synchronize();
}

void ModelRunner::read_logits(std::span<float> logits) {
    decoder_.read_logits(0, logits);
}

std::span<const float> ModelRunner::read_logits(int row) {
    decoder_.read_logits(row, row_);
    return row_;
}

kernels::Buffer ModelRunner::Memory::at_least(size_t wanted) {
    if (wanted > bytes) {
        const kernels::Buffer larger = backend.allocate(wanted);
        if (handle)
            backend.release(handle);
        handle = larger;
        bytes = wanted;
    }
    return handle;
}

ModelRunner::Drawn ModelRunner::sample(std::span<const kernels::SampleQuery> queries,
                                       std::span<const kernels::LogitChange> changes) {
    int max_logprobs = 0;
    for (const kernels::SampleQuery& query : queries)
        max_logprobs = std::max(max_logprobs, query.logprobs);
    results_.resize(queries.size());
    top_.resize(queries.size() * size_t(max_logprobs));
    if (queries.empty())
        return {};
    const auto results = std::as_writable_bytes(std::span(results_));
    const auto top = std::as_writable_bytes(std::span(top_));
    kernels::SampleOp op = {.logits = decoder_.logits(),
                            .queries = queries,
                            .changes = changes,
                            .results = device_results_.at_least(results.size()),
                            .max_logprobs = max_logprobs};
    if (max_logprobs > 0)
        op.top = device_top_.at_least(top.size());
    backend_.sample(op);
    backend_.download(op.results, 0, results);
    if (max_logprobs > 0)
        backend_.download(op.top, 0, top);
    return {results_, top_, size_t(max_logprobs)};
}

void ModelRunner::drain() noexcept {
    try {
        backend_.synchronize();
    } catch (...) {
        // The failure that is being handled says more than its consequences would.
    }
}

double ModelRunner::ns_per_swapped_block() const {
    return 2.0 * double(copied_ns_) / double(copies_);
}

void ModelRunner::copy_out(std::span<const StepPlan::Swap> swaps, const HostSwap& swap) {
    transfer(swaps, swap, [this](kernels::KvCache cache, const kernels::HostMemory& memory) {
        backend_.copy_kv_blocks_out(cache, transfers_, memory);
    });
}

void ModelRunner::copy_in(std::span<const StepPlan::Swap> swaps, const HostSwap& swap) {
    transfer(swaps, swap, [this](kernels::KvCache cache, const kernels::HostMemory& memory) {
        backend_.copy_kv_blocks_in(cache, transfers_, memory);
    });
}

/// Calls `copy` for each cache and each chunk of host memory that takes part, with what is to be copied in
/// transfers_, and waits, so that the time is that of the copies.
template <typename Copy>
void ModelRunner::transfer(std::span<const StepPlan::Swap> swaps, const HostSwap& swap, const Copy& copy) {
    if (swaps.empty())
        return;
    const auto start = Clock::now();
    for (size_t chunk = 0; chunk < swap.chunks(); ++chunk)
        for (size_t cache = 0; cache < caches_.handles.size(); ++cache) {
            transfers_.clear();
            for (const auto& [block, slot] : swaps)
                if (swap.chunk_of(slot) == chunk)
                    transfers_.push_back({block, swap.offset_of(slot) + caches_.offsets[cache]});
            if (!transfers_.empty())
                copy(caches_.handles[cache], swap.chunk(chunk));
        }
    backend_.wait(backend_.fence());
    copied_ns_ += std::chrono::nanoseconds(Clock::now() - start).count();
    copies_ += int64_t(swaps.size());
}

} // namespace orrery
