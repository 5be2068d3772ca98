// What a file is that was opened as a model and is none.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace orrery {

/// A sentence about bytes that do not begin with the letters GGUF, to stand after a file's name and a colon:
/// the kind of file that their beginning shows (an HTML page, a Git LFS pointer, safetensors, an archive, …)
/// and what to do about it.
std::string foreign_file_sentence(std::span<const std::byte> bytes);

} // namespace orrery
