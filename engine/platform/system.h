// The machine as this process may use it.
#pragma once

#include "kernels/platform/machine.h"

namespace orrery::platform {

using kernels::platform::has_available;
using kernels::platform::mebibytes;
using kernels::platform::memory_info;
using kernels::platform::MemoryInfo;

/// Memory that this process occupies now: its pages in physical memory. Zero where the system does not tell.
size_t resident_bytes();

/// Names the calling thread for debuggers and profilers; cut to the 15 bytes that Linux keeps.
void set_thread_name(const char* name);

} // namespace orrery::platform
