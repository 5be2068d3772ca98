#include "engine/platform/system.h"

#include <string>

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace orrery::platform {

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
