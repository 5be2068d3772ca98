// Host memory for the blocks of sequences that are swapped out.
//
// Slots are given out by number while a step is planned, and filled when it runs. The back end's memory for
// them is taken when they are first given out, so that a host without any left is noticed while there is
// still a choice, and kept for later use. It is taken in chunks of several slots, since page-locked memory is
// costly to allocate.
#pragma once

#include "kernels/backend.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery {

class HostSwap {
public:
    /// As many slots of `block_bytes` as fit `bytes`. The back end has to outlive the object.
    HostSwap(kernels::Backend& backend, size_t bytes, size_t block_bytes);
    ~HostSwap();
    HostSwap(const HostSwap&) = delete;
    HostSwap& operator=(const HostSwap&) = delete;

    int total() const { return total_; }
    int used() const { return used_; }

    /// Fills the empty `taken` with so many unused slots. Returns false, and takes none, where there are not
    /// enough or the host has no memory left for them.
    bool take(int count, std::vector<int32_t>& taken);
    /// Gives the slots back and empties the list.
    void release(std::vector<int32_t>& taken) noexcept;

    // Slots of one chunk lie in one piece of memory, so that one transfer can carry them all.
    size_t chunk_of(int32_t slot) const { return size_t(slot) / size_t(chunk_slots_); }
    size_t chunks() const { return chunks_.size(); }
    const kernels::HostMemory& chunk(size_t index) const { return chunks_[index]; }
    /// Where the slot's bytes, block_bytes long, begin in its chunk.
    size_t offset_of(int32_t slot) const { return size_t(slot) % size_t(chunk_slots_) * block_bytes_; }

private:
    kernels::Backend& backend_;
    size_t block_bytes_;
    int total_;
    int chunk_slots_;
    int used_ = 0;
    int slots_ = 0; ///< that have memory
    std::vector<kernels::HostMemory> chunks_;
    std::vector<int32_t> free_; ///< slots that have memory and are not used
};

} // namespace orrery
