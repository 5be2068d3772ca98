// Large arrays in host memory, refused with the numbers where there is no room for them.
#pragma once

#include "engine/platform/system.h"

#include <cstddef>
#include <exception>
#include <limits>
#include <vector>

namespace orrery::platform {

/// Throws OutOfMemory: `bytes` are not there for `what` ("the logits of a step").
[[noreturn]] void refuse_memory(size_t bytes, const char* what);

/// `count` elements with their default value. Throws OutOfMemory where the machine does not have the memory
/// available now; `what` names them.
template <typename T>
std::vector<T> host_array(size_t count, const char* what) {
    const size_t max_bytes = std::numeric_limits<size_t>::max();
    const size_t bytes = count > max_bytes / sizeof(T) ? max_bytes : count * sizeof(T);
    try {
        if (has_available(bytes))
            return std::vector<T>(count);
    } catch (const std::exception&) { // std::bad_alloc or std::length_error
    }
    refuse_memory(bytes, what);
}

} // namespace orrery::platform
