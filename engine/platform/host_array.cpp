#include "engine/platform/host_array.h"

#include "engine/platform/system.h"
#include "kernels/error.h"

#include <string>

namespace orrery::platform {

namespace {

/// Smaller arrays are taken without asking: it takes the system about 0.1 ms to say what is available.
constexpr size_t worth_asking = size_t(16) << 20;

std::string mebibytes(size_t bytes) {
    return std::to_string((bytes >> 20) + (bytes % (size_t(1) << 20) != 0)) + " MiB";
}

} // namespace

void require_memory(size_t bytes, const char* what) {
    if (bytes < worth_asking)
        return;
    const MemoryInfo memory = memory_info();
    if (memory.total_bytes > 0 && bytes > memory.available_bytes)
        refuse_memory(bytes, what);
}

void refuse_memory(size_t bytes, const char* what) {
    throw OutOfMemory("Not enough memory for " + std::string(what) + ": " + mebibytes(bytes) +
                      " are needed, " + mebibytes(memory_info().available_bytes) + " are available.");
}

} // namespace orrery::platform
