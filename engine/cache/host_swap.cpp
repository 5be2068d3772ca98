#include "engine/cache/host_swap.h"

#include "engine/reserve_more.h"

#include <algorithm>
#include <limits>
#include <new>

namespace orrery {

HostSwap::HostSwap(size_t bytes, size_t block_bytes)
    : block_bytes_(block_bytes),
      total_(int(
          std::min<size_t>(bytes / std::max<size_t>(block_bytes, 1), std::numeric_limits<int32_t>::max()))) {}

bool HostSwap::take(int count, std::vector<int32_t>& taken) {
    if (count > total_ - used_)
        return false;
    while (int(free_.size()) < count) {
        std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[block_bytes_]);
        if (!memory)
            return false;
        reserve_more(memory_);
        reserve_more(free_, memory_.size() + 1 - free_.size()); // release() finds room for every slot
        free_.push_back(int32_t(memory_.size()));
        memory_.push_back(std::move(memory));
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
