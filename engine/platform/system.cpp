#include "engine/platform/system.h"

#include <string>

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#define PSAPI_VERSION 2 // the functions of kernel32 itself: nothing more to link
#include <psapi.h>
#else
#include <pthread.h>
#include <unistd.h>

#include <fstream>
#endif

namespace orrery::platform {

size_t resident_bytes() {
#if defined(_WIN32)
    PROCESS_MEMORY_COUNTERS counters;
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters))
        return 0;
    return counters.WorkingSetSize;
#else
    // Linux tells sizes in pages, the second of which is what is resident.
    std::ifstream in("/proc/self/statm");
    size_t whole = 0, resident = 0;
    return in >> whole >> resident ? resident * size_t(::sysconf(_SC_PAGESIZE)) : 0;
#endif
}

void set_thread_name(const char* name) {
#if defined(_WIN32)
    // Windows 10 1607 brought the call; older ones run without names.
    using Function = HRESULT(WINAPI*)(HANDLE, PCWSTR);
    const HMODULE kernel = GetModuleHandleW(L"kernel32.dll");
    const auto set = reinterpret_cast<Function>(
        reinterpret_cast<void*>(kernel ? GetProcAddress(kernel, "SetThreadDescription") : nullptr));
    if (set)
        set(GetCurrentThread(), std::wstring(name, name + std::char_traits<char>::length(name)).c_str());
#elif defined(__linux__)
    ::pthread_setname_np(::pthread_self(), std::string(name).substr(0, 15).c_str());
#elif defined(__APPLE__)
    ::pthread_setname_np(name);
#else
    static_cast<void>(name);
#endif
}

} // namespace orrery::platform
