// Where files of this program lie, and paths as UTF-8.
//
// Source: the XDG Base Directory Specification; Windows' known folders.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace orrery::platform {

/// A path as UTF-8 text, for messages and files, and back. Windows keeps paths in UTF-16; std::string of
/// a path there would go through the machine's code page and lose characters.
std::string to_utf8(const std::filesystem::path& path);
std::filesystem::path from_utf8(std::string_view text);

// None of these folders is created here. All of them throw Error where the system names no home folder.

/// Models, conversations: $XDG_DATA_HOME/orrery, ~/.local/share/orrery, %LOCALAPPDATA%\orrery.
std::filesystem::path data_folder();
/// Settings: $XDG_CONFIG_HOME/orrery, ~/.config/orrery, %LOCALAPPDATA%\orrery\config.
std::filesystem::path config_folder();
/// What can be made again: $XDG_CACHE_HOME/orrery, ~/.cache/orrery, %LOCALAPPDATA%\orrery\cache.
std::filesystem::path cache_folder();

/// The model that a fresh installation answers with, relative to the data folder.
inline constexpr std::string_view default_model_file = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
/// The same as a whole path; the file may not be there.
std::filesystem::path default_model_path();

} // namespace orrery::platform
