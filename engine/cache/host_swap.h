// Room in host memory for the blocks of preempted sequences.
//
// Slots are handed out by number while a step is planned and filled when it runs. Memory is taken when a slot
// is first handed out, so that a host without any left is noticed while there is still a choice; it is kept
// for the next use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orrery {

class HostSwap {
public:
    /// As many slots of `block_bytes` as fit `bytes`.
    HostSwap(size_t bytes, size_t block_bytes);

    int total() const { return total_; }
    int used() const { return used_; }

    /// Fills the empty `taken` with so many unused slots. Returns false, and takes none, where
    /// there are not enough or the host has no memory left for them.
    bool take(int count, std::vector<int32_t>& taken);
    /// Gives the slots back and empties the list.
    void release(std::vector<int32_t>& taken) noexcept;

    /// The slot's bytes, block_bytes long.
    std::span<std::byte> bytes(int32_t slot) { return {memory_[size_t(slot)].get(), block_bytes_}; }

private:
    size_t block_bytes_;
    int total_;
    int used_ = 0;
    std::vector<std::unique_ptr<std::byte[]>> memory_; ///< slots that were ever handed out
    std::vector<int32_t> free_;                        ///< those of them that are not in use
};

} // namespace orrery
