#include "engine/platform/system.h"

#include <algorithm>
#include <cstdint>
#include <string>
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
#include <pthread.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#ifdef __linux__
#include <sched.h>
#endif
#endif

namespace orrery::platform {

#ifdef _WIN32

MemoryInfo memory_info() {
    MEMORYSTATUSEX status;
    status.dwLength = sizeof status;
    if (!GlobalMemoryStatusEx(&status))
        return {};
    return {static_cast<size_t>(status.ullTotalPhys), static_cast<size_t>(status.ullAvailPhys)};
}

int usable_cpus() {
    DWORD_PTR process = 0, system = 0;
    int count = 0;
    // The mask covers one processor group; a process that spans several gets a mask of zero.
    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system))
        for (; process; process &= process - 1)
            ++count;
    if (count == 0)
        count = static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
    return std::max(1, count);
}

void set_thread_name(const char* name) {
    // Windows 10 1607 brought the call; older ones run without names.
    using Function = HRESULT(WINAPI*)(HANDLE, PCWSTR);
    const HMODULE kernel = GetModuleHandleW(L"kernel32.dll");
    const auto set = reinterpret_cast<Function>(
        reinterpret_cast<void*>(kernel ? GetProcAddress(kernel, "SetThreadDescription") : nullptr));
    if (set)
        set(GetCurrentThread(), std::wstring(name, name + std::char_traits<char>::length(name)).c_str());
}

#else

namespace {

#ifdef __linux__

/// A file that holds one number; "max" (no limit) and a missing file give none.
std::optional<uint64_t> read_number(const std::string& path) {
    std::ifstream in(path);
    uint64_t value = 0;
    if (in >> value)
        return value;
    return std::nullopt;
}

/// The line "KEY: 123 kB" of /proc/meminfo, in bytes.
size_t meminfo_bytes(const std::string& key) {
    std::ifstream in("/proc/meminfo");
    for (std::string line; std::getline(in, line);)
        if (line.compare(0, key.size() + 1, key + ":") == 0)
            return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
    return 0;
}

/// Folders of the control groups (version 2) that this process is in, innermost first. Every one of them
/// may set a limit.
std::vector<std::string> control_groups() {
    std::vector<std::string> folders;
    std::ifstream in("/proc/self/cgroup");
    for (std::string line; std::getline(in, line);) {
        if (line.compare(0, 3, "0::") != 0)
            continue;
        // Inside a container the path may be relative to a root that is not visible here; the mounted root
        // itself then is the container's group.
        std::string group = line.substr(3);
        while (group.size() > 1) {
            folders.push_back("/sys/fs/cgroup" + group);
            group.erase(group.rfind('/'));
        }
        folders.push_back("/sys/fs/cgroup");
    }
    return folders;
}

#endif

} // namespace

MemoryInfo memory_info() {
#ifdef __linux__
    MemoryInfo info{meminfo_bytes("MemTotal"), meminfo_bytes("MemAvailable")};
    const auto limit = [&](uint64_t most, uint64_t used, uint64_t droppable) {
        if (most >= info.total_bytes)
            return;
        info.total_bytes = most;
        const uint64_t held = used > droppable ? used - droppable : 0;
        info.available_bytes = std::min<size_t>(info.available_bytes, most > held ? most - held : 0);
    };
    for (const std::string& group : control_groups()) {
        const auto most = read_number(group + "/memory.max");
        const auto used = read_number(group + "/memory.current");
        if (!most || !used)
            continue;
        uint64_t droppable = 0; // page cache counts as used, and is given back on demand
        std::ifstream stat(group + "/memory.stat");
        std::string key;
        for (uint64_t value = 0; stat >> key >> value;)
            if (key == "inactive_file" || key == "active_file")
                droppable += value;
        limit(*most, *used, droppable);
    }
    // Control groups of version 1.
    const auto most = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    const auto used = read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes");
    if (most && used)
        limit(*most, *used, 0);
    return info;
#else
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0)
        return {};
    const size_t total = static_cast<size_t>(pages) * static_cast<size_t>(page);
    return {total, total};
#endif
}

int usable_cpus() {
    int count = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0)
        count = CPU_COUNT(&set);
    for (const std::string& group : control_groups()) {
        std::ifstream in(group + "/cpu.max"); // "QUOTA PERIOD" in microseconds, or "max PERIOD"
        uint64_t quota = 0, period = 0;
        if (in >> quota >> period && period > 0)
            count = static_cast<int>(std::min<uint64_t>(count, quota / period + (quota % period != 0)));
    }
#endif
    return std::max(1, count);
}

void set_thread_name(const char* name) {
#if defined(__linux__)
    ::pthread_setname_np(::pthread_self(), std::string(name).substr(0, 15).c_str());
#elif defined(__APPLE__)
    ::pthread_setname_np(name);
#else
    static_cast<void>(name);
#endif
}

#endif

} // namespace orrery::platform
