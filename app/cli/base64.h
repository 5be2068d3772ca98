// Base64 (RFC 4648, section 4), for binary values in JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace orrery::cli {

std::string base64(std::span<const std::byte> bytes);

} // namespace orrery::cli
