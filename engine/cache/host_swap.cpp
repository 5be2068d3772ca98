#include "engine/cache/host_swap.h"

#include "engine/reserve_more.h"
#include "kernels/error.h"

#include <algorithm>
#include <limits>
#include <new>

namespace orrery {

namespace {

constexpr size_t chunk_bytes = size_t{8} << 20;

int count_of(size_t bytes, size_t block_bytes) {
    return int(
        std::min<size_t>(bytes / std::max<size_t>(block_bytes, 1), std::numeric_limits<int32_t>::max()));
}

} // namespace

HostSwap::HostSwap(kernels::Backend& backend, size_t bytes, size_t block_bytes)
    : backend_(backend),
      block_bytes_(block_bytes),
      total_(count_of(bytes, block_bytes)),
      chunk_slots_(std::max(count_of(chunk_bytes, block_bytes), 1)) {}

HostSwap::~HostSwap() {
    for (const kernels::HostMemory& chunk : chunks_)
        backend_.release(chunk);
}

bool HostSwap::take(int count, std::vector<int32_t>& taken) {
    if (count > total_ - used_)
        return false;
    while (int(free_.size()) < count) {
        const int slots = std::min(chunk_slots_, total_ - slots_);
        reserve_more(chunks_);
        reserve_more(free_, size_t(slots_ + slots) - free_.size()); // release() finds room for every slot
        try {
            chunks_.push_back(backend_.allocate_host(size_t(slots) * block_bytes_));
        } catch (const std::bad_alloc&) {
            return false;
        } catch (const OutOfMemory&) {
            return false;
        }
        for (int slot = slots_ + slots - 1; slot >= slots_; --slot) // the lowest are taken first
            free_.push_back(slot);
        slots_ += slots;
    }
    taken.assign(free_.end() - count, free_.end());
    free_.resize(free_.size() - size_t(count));
    used_ += count;
    return true;
}

void HostSwap::release(std::vector<int32_t>& taken) noexcept {
    free_.insert(free_.end(), taken.begin(), taken.end());
    used_ -= int(taken.size());
    taken.clear();
}

} // namespace orrery
