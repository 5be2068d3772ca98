// The machine as this process may use it: its own share where it runs in a container. This folder and
// engine/platform are the only places that talk to the operating system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace orrery::kernels::platform {

struct MemoryInfo {
    size_t total_bytes = 0; ///< of the machine, or of the container's limit where that is lower
    size_t available_bytes =
        0; ///< that can be taken without swapping, page cache that can be dropped included
};

/// Measured now. Zeros where the system does not tell. `root` is where Linux keeps /proc and /sys (a test
/// brings its own).
MemoryInfo memory_info(const std::filesystem::path& root = "/");

/// Whether so much memory can be taken now. Systems promise memory that they do not have, and end the process
/// once it is touched: what is not there has to be refused beforehand. Pieces below 16 MiB are not asked
/// about: it takes the system about 0.1 ms to say, during which 1 MiB could be filled.
bool has_available(size_t bytes);

/// "94 MiB", rounded up: how sentences about memory that is not there give its size.
std::string mebibytes(size_t bytes);

struct ProcessorShare {
    int allowed = 1; ///< logical processors that this process may run on: its affinity mask
    int granted = 1; ///< how many of them a container's share of processor time keeps busy, rounded up
};

/// Both at least 1; `granted` is at most `allowed`. `root` as above.
ProcessorShare processor_share(const std::filesystem::path& root = "/");

/// Threads that make full use of this process's share: one for each core that it may run on, since two on one
/// core would fight for the same units, and no more than its processor time is enough for.
int usable_cores(const ProcessorShare& share, int threads_per_core);

/// Asks for huge pages behind these bytes. A refusal changes nothing.
void advise_huge_pages(std::byte* begin, size_t bytes);

} // namespace orrery::kernels::platform
