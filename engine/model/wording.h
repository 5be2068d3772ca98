// Numbers as sentences for people show them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

/// 98362432 → "98,362,432".
std::string grouped(uint64_t number);

/// 98362432 → "93.8 MiB": three significant digits and the unit. Below one KiB "512 bytes".
std::string byte_text(uint64_t bytes);

/// {49152, 576} → "[49152, 576]".
std::string shape_text(const std::vector<int64_t>& shape);

} // namespace orrery
