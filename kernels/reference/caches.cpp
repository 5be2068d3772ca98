#include "kernels/reference/caches.h"

#include "kernels/reference/checks.h"

#include <cstring>

namespace orrery::kernels {

using reference::number;
using reference::require;
using reference::saturating_product;

namespace {

void require_one_of(int32_t index, int count, const char* what) {
    require(index >= 0 && index < count, std::string(what) + " " + number(index) + " is not one of the " +
                                             number(count) + " of this cache.");
}

/// `what` is "Block" or "Slot".
void require_independent(std::span<const BlockCopy> copies, int count, const char* what) {
    for (const BlockCopy& copy : copies) {
        require_one_of(copy.from, count, what);
        require_one_of(copy.to, count, what);
        for (const BlockCopy& other : copies)
            require(&other == &copy || (other.from != copy.to && other.to != copy.to),
                    std::string(what) + " " + number(copy.to) + " takes part in two copies of one call.");
    }
}

} // namespace

// Keys and values

KvCache ReferenceBackend::create_kv_cache(const KvCacheSpec& spec) {
    auto cache = std::make_unique<Cache>(Cache{spec});
    const size_t block_bytes = kv_block_bytes(spec);
    require(spec.blocks > 0, "A cache needs at least one block, not " + number(spec.blocks) + ".");
    cache->memory =
        take_memory(saturating_product(block_bytes, static_cast<size_t>(spec.blocks)), "keys and values");
    const uint32_t id = new_id();
    caches_.emplace(id, std::move(cache));
    return {id};
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
    require(!spec.value_in_key || spec.value_length <= spec.key_length,
            "Values of " + number(spec.value_length) + " elements do not lie in keys of " +
                number(spec.key_length) + ".");
    return Cache{spec}.block_bytes();
}

ReferenceBackend::Cache& ReferenceBackend::cache_of(KvCache cache) const {
    const auto entry = caches_.find(cache.id);
    require(entry != caches_.end(), "Handle " + number(cache.id) + " names no cache, or a released one.");
    return *entry->second;
}

void ReferenceBackend::copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) {
    const Cache& blocks = cache_of(cache);
    require_independent(copies, blocks.spec.blocks, "Block");
    enqueue(&KernelProfile::other_ns, [&blocks, list = std::vector(copies.begin(), copies.end())] {
        for (const BlockCopy& copy : list)
            std::memmove(blocks.block(copy.to), blocks.block(copy.from), blocks.block_bytes());
    });
}

void ReferenceBackend::copy_kv_blocks_out(KvCache cache, std::span<const BlockTransfer> transfers,
                                          const HostMemory& to) {
    const Cache& blocks = cache_of(cache);
    for (const BlockTransfer& transfer : transfers) {
        require_one_of(transfer.block, blocks.spec.blocks, "Block");
        std::byte* const target = host_bytes(to, transfer.host_offset, blocks.block_bytes());
        enqueue(&KernelProfile::other_ns, [&blocks, target, block = transfer.block] {
            std::memcpy(target, blocks.block(block), blocks.block_bytes());
        });
    }
}

void ReferenceBackend::copy_kv_blocks_in(KvCache cache, std::span<const BlockTransfer> transfers,
                                         const HostMemory& from) {
    const Cache& blocks = cache_of(cache);
    for (const BlockTransfer& transfer : transfers) {
        require_one_of(transfer.block, blocks.spec.blocks, "Block");
        const std::byte* const source = host_bytes(from, transfer.host_offset, blocks.block_bytes());
        enqueue(&KernelProfile::other_ns, [&blocks, source, block = transfer.block] {
            std::memcpy(blocks.block(block), source, blocks.block_bytes());
        });
    }
}

// Recurrent states

StateCache ReferenceBackend::create_state_cache(const StateCacheSpec& spec) {
    auto state = std::make_unique<State>(State{spec});
    const size_t slot_bytes = state_slot_bytes(spec);
    require(spec.slot_count > 0,
            "Recurrent states need at least one slot, not " + number(spec.slot_count) + ".");
    state->memory =
        take_memory(saturating_product(slot_bytes, static_cast<size_t>(spec.slot_count)), "recurrent states");
    const uint32_t id = new_id();
    states_.emplace(id, std::move(state));
    return {id};
}

void ReferenceBackend::release(StateCache cache) {
    if (!cache)
        return;
    synchronize();
    give_back(state_of(cache).memory);
    states_.erase(cache.id);
}

size_t ReferenceBackend::state_slot_bytes(const StateCacheSpec& spec) const {
    const bool convolution = spec.channels > 0 && spec.kernel > 0;
    const bool recurrence = spec.heads > 0 && spec.rows > 0 && spec.columns > 0;
    require(spec.layers > 0 && (convolution || recurrence) && (convolution || spec.channels == 0) &&
                (recurrence || spec.heads == 0),
            "A recurrent state of " + number(spec.layers) + " layers, " + number(spec.channels) +
                " channels with " + number(spec.kernel) + " taps and " + number(spec.heads) + " heads of " +
                number(spec.rows) + " × " + number(spec.columns) + " holds nothing.");
    return State{spec}.slot_bytes();
}

ReferenceBackend::State& ReferenceBackend::state_of(StateCache cache) const {
    const auto entry = states_.find(cache.id);
    require(entry != states_.end(),
            "Handle " + number(cache.id) + " names no recurrent state, or a released one.");
    return *entry->second;
}

void ReferenceBackend::copy_state_slots(StateCache cache, std::span<const BlockCopy> copies) {
    const State& slots = state_of(cache);
    require_independent(copies, slots.spec.slot_count, "Slot");
    enqueue(&KernelProfile::other_ns, [&slots, list = std::vector(copies.begin(), copies.end())] {
        for (const BlockCopy& copy : list)
            std::memmove(slots.slot(copy.to), slots.slot(copy.from), slots.slot_bytes());
    });
}

void ReferenceBackend::copy_state_slots_out(StateCache cache, std::span<const BlockTransfer> transfers,
                                            const HostMemory& to) {
    const State& slots = state_of(cache);
    for (const BlockTransfer& transfer : transfers) {
        require_one_of(transfer.block, slots.spec.slot_count, "Slot");
        std::byte* const target = host_bytes(to, transfer.host_offset, slots.slot_bytes());
        enqueue(&KernelProfile::other_ns, [&slots, target, slot = transfer.block] {
            std::memcpy(target, slots.slot(slot), slots.slot_bytes());
        });
    }
}

void ReferenceBackend::copy_state_slots_in(StateCache cache, std::span<const BlockTransfer> transfers,
                                           const HostMemory& from) {
    const State& slots = state_of(cache);
    for (const BlockTransfer& transfer : transfers) {
        require_one_of(transfer.block, slots.spec.slot_count, "Slot");
        const std::byte* const source = host_bytes(from, transfer.host_offset, slots.slot_bytes());
        enqueue(&KernelProfile::other_ns, [&slots, source, slot = transfer.block] {
            std::memcpy(slots.slot(slot), source, slots.slot_bytes());
        });
    }
}

} // namespace orrery::kernels
