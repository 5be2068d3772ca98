#include "engine/platform/host_array.h"

#include "kernels/error.h"

#include <string>

namespace orrery::platform {

void refuse_memory(size_t bytes, const char* what) {
    throw OutOfMemory("Not enough memory for " + std::string(what) + ": " + mebibytes(bytes) +
                      " are needed, " + mebibytes(memory_info().available_bytes) + " are available.");
}

} // namespace orrery::platform
