// One GGUF file's header, read and checked: the work behind GgufFile.
#pragma once

#include "engine/model/gguf.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

/// One file of a model: its metadata, and its tensors as spans of `bytes`.
///
/// Memory: every element of an array takes at least one byte of the file and at most 32 bytes here (a
/// string takes 8 and 32), every field at least 14 bytes and every tensor at least 25. Counts are compared
/// with what the rest of the file could hold before anything is reserved for them.
struct GgufPart {
    std::string name; ///< in errors
    uint32_t version = 0;
    std::vector<std::pair<std::string, GgufValue>> metadata;
    std::vector<GgufTensor> tensors;

    /// Throws Error where anything is wrong with `bytes`.
    GgufPart(std::span<const std::byte> bytes, std::string part_name);
};

/// An integer field's value, where it is there and an integer that fits.
std::optional<int64_t> as_int(const GgufValue& value);

} // namespace orrery
