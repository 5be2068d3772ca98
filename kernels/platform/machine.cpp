#include "kernels/platform/machine.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#ifdef __linux__
#include <sched.h>
#endif
#endif

namespace orrery::kernels::platform {

namespace fs = std::filesystem;

int usable_cores(const ProcessorShare& share, int threads_per_core) {
    return std::max(1, std::min(share.allowed / std::max(threads_per_core, 1), share.granted));
}

bool has_available(size_t bytes) {
    constexpr size_t worth_asking = size_t{16} << 20;
    if (bytes < worth_asking)
        return true;
    const MemoryInfo memory = memory_info();
    return memory.total_bytes == 0 || bytes <= memory.available_bytes;
}

std::string mebibytes(size_t bytes) {
    constexpr size_t mebibyte = size_t{1} << 20;
    return std::to_string(bytes / mebibyte + (bytes % mebibyte != 0)) + " MiB";
}

#ifdef _WIN32

MemoryInfo memory_info(const fs::path&) {
    MEMORYSTATUSEX status;
    status.dwLength = sizeof status;
    if (!GlobalMemoryStatusEx(&status))
        return {};
    return {static_cast<size_t>(status.ullTotalPhys), static_cast<size_t>(status.ullAvailPhys)};
}

ProcessorShare processor_share(const fs::path&) {
    DWORD_PTR process = 0, system = 0;
    int count = 0;
    // The mask covers one processor group; a process that spans several gets a mask of zero.
    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system))
        for (; process; process &= process - 1)
            ++count;
    if (count == 0)
        count = static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
    count = std::max(1, count);
    return {count, count};
}

void advise_huge_pages(std::byte*, size_t) {} // Windows gives them to administrators alone

#else

namespace {

#ifdef __linux__

/// A file that holds one number; "max" or −1 (no limit) and a missing file give none.
std::optional<uint64_t> read_number(const fs::path& path) {
    std::ifstream in(path);
    uint64_t value = 0;
    if (in.peek() == '-')
        return std::nullopt;
    if (in >> value)
        return value;
    return std::nullopt;
}

/// The line "KEY: 123 kB" of /proc/meminfo, in bytes.
size_t meminfo_bytes(const fs::path& root, const std::string& key) {
    std::ifstream in(root / "proc/meminfo");
    for (std::string line; std::getline(in, line);)
        if (line.compare(0, key.size() + 1, key + ":") == 0)
            return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
    return 0;
}

/// Folders of the control groups (version 2) that this process is in, innermost first. Every one of them
/// may set a limit.
std::vector<fs::path> control_groups(const fs::path& root) {
    std::vector<fs::path> folders;
    std::ifstream in(root / "proc/self/cgroup");
    for (std::string line; std::getline(in, line);) {
        if (line.compare(0, 3, "0::") != 0)
            continue;
        // Inside a container the path may be relative to a root that is not visible here; the mounted root
        // itself then is the container's group.
        const fs::path mounted = root / "sys/fs/cgroup";
        for (fs::path group = fs::path(line.substr(3)).relative_path(); !group.empty();
             group = group.parent_path())
            folders.push_back(mounted / group);
        folders.push_back(mounted);
    }
    return folders;
}

#endif

} // namespace

MemoryInfo memory_info([[maybe_unused]] const fs::path& root) {
#ifdef __linux__
    MemoryInfo info{meminfo_bytes(root, "MemTotal"), meminfo_bytes(root, "MemAvailable")};
    const auto limit = [&](uint64_t max_bytes, uint64_t used, uint64_t droppable) {
        if (max_bytes >= info.total_bytes)
            return;
        info.total_bytes = max_bytes;
        const uint64_t held = used > droppable ? used - droppable : 0;
        info.available_bytes =
            std::min<size_t>(info.available_bytes, max_bytes > held ? max_bytes - held : 0);
    };
    for (const fs::path& group : control_groups(root)) {
        const auto max_bytes = read_number(group / "memory.max");
        const auto used = read_number(group / "memory.current");
        if (!max_bytes || !used)
            continue;
        uint64_t droppable = 0; // page cache counts as used, and is given back on demand
        std::ifstream stat(group / "memory.stat");
        std::string key;
        for (uint64_t value = 0; stat >> key >> value;)
            if (key == "inactive_file" || key == "active_file")
                droppable += value;
        limit(*max_bytes, *used, droppable);
    }
    // Control groups of version 1.
    const auto max_bytes = read_number(root / "sys/fs/cgroup/memory/memory.limit_in_bytes");
    const auto used = read_number(root / "sys/fs/cgroup/memory/memory.usage_in_bytes");
    if (max_bytes && used)
        limit(*max_bytes, *used, 0);
    return info;
#else
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0)
        return {};
    const size_t total = static_cast<size_t>(pages) * static_cast<size_t>(page);
    return {total, total};
#endif
}

ProcessorShare processor_share([[maybe_unused]] const fs::path& root) {
    int count = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0)
        count = CPU_COUNT(&set);
#endif
    ProcessorShare share{std::max(1, count), std::max(1, count)};
#ifdef __linux__
    // Microseconds of processor time in each period of so many microseconds.
    const auto limit = [&](uint64_t quota, uint64_t period) {
        const uint64_t busy = quota / period + (quota % period != 0);
        share.granted = static_cast<int>(std::clamp<uint64_t>(busy, 1, static_cast<uint64_t>(share.granted)));
    };
    for (const fs::path& group : control_groups(root)) {
        std::ifstream in(group / "cpu.max"); // "QUOTA PERIOD", or "max PERIOD"
        uint64_t quota = 0, period = 0;
        if (in >> quota >> period && period > 0)
            limit(quota, period);
    }
    // Control groups of version 1.
    const auto quota = read_number(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    const auto period = read_number(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (quota && period.value_or(0) > 0)
        limit(*quota, *period);
#endif
    return share;
}

void advise_huge_pages([[maybe_unused]] std::byte* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
    ::madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

#endif

} // namespace orrery::kernels::platform
