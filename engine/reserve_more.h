// Room in a list ahead of time, so that what is changed together is changed completely or not at all: first
// everything that may fail for want of memory, then the change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace orrery {

/// The next `more` elements are appended without an allocation. Lists grow by doubling, as by themselves.
/// Throws std::bad_alloc; then nothing is changed.
template <typename T>
void reserve_more(std::vector<T>& list, size_t more = 1) {
    if (list.capacity() - list.size() < more)
        list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}

} // namespace orrery
