#include "engine/platform/file.h"

#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <cerrno>
#include <fstream>
#include <iterator>

namespace orrery::platform {

std::string reason_text(std::error_code reason) {
    std::string text = reason.message();
    while (!text.empty() && (text.back() == '.' || text.back() == '\n' || text.back() == '\r'))
        text.pop_back();
    return text;
}

void refuse_file(const std::filesystem::path& path, const char* what, std::error_code reason) {
    throw Error(to_utf8(path) + " cannot be " + what + ": " + reason_text(reason) + ".");
}

std::string read_whole_file(const std::filesystem::path& path) {
    std::error_code ignored; // what cannot be looked at cannot be opened either, and then the reason is given
    if (std::filesystem::is_directory(path, ignored))
        throw Error(to_utf8(path) + " is a folder, not a file.");
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    if (!in)
        refuse_file(path, "opened", {errno, std::generic_category()});
    try {
        return {std::istreambuf_iterator<char>(in), {}};
    } catch (const std::ios_base::failure&) {
        refuse_file(path, "read", {errno, std::generic_category()});
    }
}

} // namespace orrery::platform
