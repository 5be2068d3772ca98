#include "engine/cache/host_swap.h"

#include "engine/reserve_more.h"
#include "kernels/error.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace orrery {

namespace {

constexpr size_t chunk_bytes = size_t{8} << 20;

int count_of(size_t bytes, size_t block_bytes) {
    return int(
        std::min<size_t>(bytes / std::max<size_t>(block_bytes, 1), std::numeric_limits<int32_t>::max()));
}

} // namespace

HostSwap::HostSwap(kernels::Backend& backend, size_t bytes, size_t block_bytes, int blocks)
    : backend_(backend),
      block_bytes_(block_bytes),
      total_(count_of(bytes, block_bytes)),
      chunk_slots_(std::max(count_of(chunk_bytes, block_bytes), 1)),
      slot_of_block_(size_t(blocks), -1) {}

HostSwap::~HostSwap() {
    for (const kernels::HostMemory& chunk : chunks_)
        backend_.release(chunk);
}

bool HostSwap::hold(std::span<const int32_t> blocks, RequestId owner, std::vector<int32_t>& slots) {
    const auto has_none = [this](int32_t block) { return slot_of_block_[size_t(block)] < 0; };
    const int missing = int(std::ranges::count_if(blocks, has_none));
    if (missing > total_ - used_)
        return false;
    while (int(free_.size()) < missing) {
        const size_t before = slots_.size(), more = size_t(std::min(chunk_slots_, total_ - int(before)));
        reserve_more(chunks_);
        reserve_more(slots_, more);
        reserve_more(free_, before + more - free_.size()); // release() finds room for every slot
        try {
            chunks_.push_back(backend_.allocate_host(more * block_bytes_));
        } catch (const std::bad_alloc&) {
            return false;
        } catch (const OutOfMemory&) {
            return false;
        }
        slots_.resize(before + more);
        for (size_t slot = before + more; slot-- > before;) // the lowest are taken first
            free_.push_back(int32_t(slot));
    }
    reserve_more(slots, blocks.size());
    reserve_more(pending_, slots_.size()); // evict() finds room for every block
    for (const int32_t block : blocks) {
        int32_t& slot = slot_of_block_[size_t(block)];
        if (slot < 0) {
            slot = free_.back();
            free_.pop_back();
            used_ += 1;
            slots_[size_t(slot)].owner = owner;
            slots_[size_t(slot)].block = block;
        }
        slots_[size_t(slot)].users += 1;
        slots.push_back(slot);
    }
    return true;
}

void HostSwap::release(std::vector<int32_t>& slots) noexcept {
    for (const int32_t index : slots) {
        Slot& slot = slots_[size_t(index)];
        if (--slot.users > 0)
            continue;
        if (slot.block >= 0)
            slot_of_block_[size_t(slot.block)] = -1;
        slot.block = -1;
        slot.on_host = false;
        free_.push_back(index);
        used_ -= 1;
    }
    slots.clear();
}

int32_t HostSwap::evict(int32_t block) noexcept {
    const int32_t slot = slot_of_block_[size_t(block)];
    if (slot < 0)
        return -1;
    slot_of_block_[size_t(block)] = -1;
    slots_[size_t(slot)].block = -1;
    slots_[size_t(slot)].on_host = true;
    pending_.push_back({block, slot});
    return slot;
}

void HostSwap::lost() noexcept {
    for (const BlockSwap& copy : pending_)
        slots_[size_t(copy.slot)].on_host = false;
    pending_.clear();
}

void HostSwap::check_integrity(std::span<const int32_t> users) const {
    std::vector<int> counts(slots_.size(), 0);
    for (const int32_t slot : users)
        counts.at(size_t(slot)) += 1;
    int used = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
        const Slot& slot = slots_[i];
        used += counts[i] > 0;
        if (slot.users != counts[i])
            throw Error("The swap space is broken: slot " + std::to_string(i) + " counts " +
                        std::to_string(slot.users) + " users, but sequences hold it " +
                        std::to_string(counts[i]) + " times.");
        if (slot.block >= 0 && (slot.on_host || slot_of_block_[size_t(slot.block)] != int32_t(i)))
            throw Error("The swap space is broken: slot " + std::to_string(i) + " is not that of block " +
                        std::to_string(slot.block) + '.');
    }
    if (used != used_ || free_.size() != slots_.size() - size_t(used))
        throw Error("The swap space is broken: sequences hold " + std::to_string(used) + " slots, " +
                    std::to_string(used_) + " are in use.");
}

} // namespace orrery
