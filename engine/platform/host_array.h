// Large arrays in host memory. Systems promise memory that they do not have, and end the process once it is
// touched; so what is not there is refused beforehand, with the numbers.
#pragma once

#include <cstddef>
#include <exception>
#include <limits>
#include <vector>

namespace orrery::platform {

/// Throws OutOfMemory where the machine does not have `bytes` available now; `what` names them ("the logits
/// of a step").
void require_memory(size_t bytes, const char* what);

/// Throws OutOfMemory for memory that the system did refuse.
[[noreturn]] void refuse_memory(size_t bytes, const char* what);

/// `count` elements with their default value. Throws OutOfMemory, as require_memory().
template <typename T>
std::vector<T> host_array(size_t count, const char* what) {
    const size_t most = std::numeric_limits<size_t>::max();
    const size_t bytes = count > most / sizeof(T) ? most : count * sizeof(T);
    require_memory(bytes, what);
    try {
        return std::vector<T>(count);
    } catch (const std::exception&) { // std::bad_alloc or std::length_error
        refuse_memory(bytes, what);
    }
}

} // namespace orrery::platform
