// The machine as this process may use it.
#pragma once

#include <cstddef>

namespace orrery::platform {

struct MemoryInfo {
    size_t total_bytes = 0; ///< of the machine, or of the container's limit where that is lower
    size_t available_bytes =
        0; ///< that can be taken without swapping, page cache that can be dropped included
};

/// Measured now. Zeros where the system does not tell.
MemoryInfo memory_info();

/// Logical processors that this process may run on at the same time: its affinity mask, cut down to a
/// container's share of processor time. At least 1.
int usable_cpus();

/// Names the calling thread for debuggers and profilers; cut to the 15 bytes that Linux keeps.
void set_thread_name(const char* name);

} // namespace orrery::platform
