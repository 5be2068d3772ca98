// Files in one piece, and what the system says of a file as a sentence for people.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace orrery::platform {

/// The system's words without the full stop and line end that some of them have: "Permission denied".
std::string reason_text(std::error_code reason);

/// Throws Error: "PATH cannot be opened: Permission denied." `what` is "opened", "read", "written" …
[[noreturn]] void refuse_file(const std::filesystem::path& path, const char* what, std::error_code reason);

/// All bytes of a file, or of what a pipe brings until its end. Throws Error with the path and the system's
/// reason where it cannot be read, and where it is a folder.
std::string read_whole_file(const std::filesystem::path& path);

} // namespace orrery::platform
