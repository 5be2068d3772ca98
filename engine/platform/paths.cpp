#include "engine/platform/paths.h"

#include "kernels/error.h"

#include <cstdlib>

#ifdef _WIN32
#include <wchar.h>
#else
#include <pwd.h>
#include <unistd.h>

#include <vector>
#endif

namespace fs = std::filesystem;

namespace orrery::platform {

std::string to_utf8(const fs::path& path) {
    const std::u8string text = path.u8string();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

fs::path from_utf8(std::string_view text) {
    return {std::u8string(reinterpret_cast<const char8_t*>(text.data()), text.size())};
}

#ifdef _WIN32

namespace {

fs::path local_folder() {
    if (const wchar_t* folder = _wgetenv(L"LOCALAPPDATA"); folder && *folder)
        return fs::path(folder) / L"orrery";
    if (const wchar_t* profile = _wgetenv(L"USERPROFILE"); profile && *profile)
        return fs::path(profile) / L"AppData" / L"Local" / L"orrery";
    throw Error(
        "Windows names no folder for this user's files: neither LOCALAPPDATA nor USERPROFILE is set.");
}

} // namespace

fs::path data_folder() {
    return local_folder();
}

fs::path config_folder() {
    return local_folder() / L"config";
}

fs::path cache_folder() {
    return local_folder() / L"cache";
}

#else

namespace {

fs::path home_folder() {
    if (const char* home = std::getenv("HOME"); home && *home)
        return home;
    // A service started without an environment still has a home in the user database.
    std::vector<char> buffer(16384);
    passwd entry;
    passwd* found = nullptr;
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found &&
        *found->pw_dir)
        return found->pw_dir;
    throw Error("The system names no home folder for this user: HOME is not set.");
}

fs::path xdg_folder(const char* variable, const char* otherwise) {
    // The specification tells to ignore a relative path.
    if (const char* value = std::getenv(variable); value && fs::path(value).is_absolute())
        return fs::path(value) / "orrery";
    return home_folder() / otherwise / "orrery";
}

} // namespace

fs::path data_folder() {
    return xdg_folder("XDG_DATA_HOME", ".local/share");
}

fs::path config_folder() {
    return xdg_folder("XDG_CONFIG_HOME", ".config");
}

fs::path cache_folder() {
    return xdg_folder("XDG_CACHE_HOME", ".cache");
}

#endif

fs::path default_model_path() {
    return data_folder() / from_utf8(default_model_file);
}

} // namespace orrery::platform
