// Room in host memory for the blocks of preempted sequences.
//
// A preempted sequence is promised that the content of its blocks is kept: hold() gives it a slot for each.
// The content is not copied then. As long as the device's block is not taken for something else, it is found
// where it is; only when it is about to be overwritten, evict() moves it to its slot. So a block that others
// still use, or that is found again in time, is never copied, and one that several sequences hold is copied
// once.
//
// The back end's memory for the slots is taken when they are first given out, so that a host without any left
// is noticed while there is still a choice, and kept for later use. It is taken in chunks of several slots,
// since page-locked memory is costly to allocate.
#pragma once

#include "engine/request.h"
#include "kernels/backend.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

/// A block's content goes to a slot of host memory or comes from there.
struct BlockSwap {
    int32_t block = 0;
    int32_t slot = 0;
};

class HostSwap {
public:
    /// As many slots of `block_bytes` as fit `bytes`, for a device with so many blocks. The back end has to
    /// outlive the object.
    HostSwap(kernels::Backend& backend, size_t bytes, size_t block_bytes, int blocks);
    ~HostSwap();
    HostSwap(const HostSwap&) = delete;
    HostSwap& operator=(const HostSwap&) = delete;

    int total() const { return total_; }
    /// Slots that are handed out, whether their content is still on the device or not.
    int used() const { return used_; }

    /// Fills the empty `slots` with a slot for each of the blocks; a block that has one shares it. Returns
    /// false, and hands out none, where there are not enough or the host has no memory left for them.
    /// `owner` is the request that reports name.
    bool hold(std::span<const int32_t> blocks, RequestId owner, std::vector<int32_t>& slots);
    /// Gives the slots back and empties the list.
    void release(std::vector<int32_t>& slots) noexcept;

    /// The device's block will be overwritten: where a slot is held for its content, that is to be copied
    /// first. Returns the slot, or -1.
    int32_t evict(int32_t block) noexcept;
    RequestId owner(int32_t slot) const { return slots_[size_t(slot)].owner; }

    /// Copies that are to be made before any block is written.
    const std::vector<BlockSwap>& pending() const { return pending_; }
    /// The pending copies have been made.
    void copied() noexcept { pending_.clear(); }
    /// They could not be made: the content is lost.
    void lost() noexcept;

    /// The device's block that still has the slot's content, or -1.
    int32_t block_of(int32_t slot) const { return slots_[size_t(slot)].block; }
    /// Whether the content is in the slot, or will be once the pending copies have been made.
    bool on_host(int32_t slot) const { return slots_[size_t(slot)].on_host; }

    // Slots of one chunk lie in one piece of memory, so that one transfer can carry them all.
    size_t chunk_of(int32_t slot) const { return size_t(slot) / size_t(chunk_slots_); }
    size_t chunks() const { return chunks_.size(); }
    const kernels::HostMemory& chunk(size_t index) const { return chunks_[index]; }
    /// Where the slot's bytes, block_bytes long, begin in its chunk.
    size_t offset_of(int32_t slot) const { return size_t(slot) % size_t(chunk_slots_) * block_bytes_; }

    /// Throws Error where the counters contradict each other or `users`: all slots that sequences hold, those
    /// that several share as often.
    void check_integrity(std::span<const int32_t> users) const;

private:
    struct Slot {
        RequestId owner = 0;
        int users = 0;
        int32_t block = -1;
        bool on_host = false;
    };

    kernels::Backend& backend_;
    size_t block_bytes_;
    int total_;
    int chunk_slots_;
    int used_ = 0;
    std::vector<kernels::HostMemory> chunks_;
    std::vector<Slot> slots_;            ///< that have memory
    std::vector<int32_t> free_;          ///< those of them that are not in use
    std::vector<int32_t> slot_of_block_; ///< [blocks], or -1
    std::vector<BlockSwap> pending_;
};

} // namespace orrery
