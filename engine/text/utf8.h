// UTF-8, byte by byte.
//
// Source: The Unicode Standard, table 3-7 (well-formed sequences) and section 3.9 (U+FFFD for each maximal
// subpart of an ill-formed sequence).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::utf8 {

enum class Form : uint8_t {
    whole,   ///< a character
    invalid, ///< bytes that no continuation can make a character: a maximal subpart, one U+FFFD
    cut,     ///< the text ends inside of a character that is right so far
};

/// What stands at the beginning of a text.
struct Sequence {
    Form form = Form::whole;
    uint8_t length = 1; ///< bytes
    char32_t code = 0;  ///< the character, where it is whole
};

/// Looks at the first sequence of a text that is not empty.
Sequence first(std::string_view text);

bool is_valid(std::string_view text);

void append(std::string& out, char32_t code);

/// Appends `text` with U+FFFD for each invalid sequence. A cut sequence at the end is replaced as well with
/// `at_end`, and left out otherwise. Returns how many bytes of `text` were used.
size_t append_repaired(std::string& out, std::string_view text, bool at_end);

} // namespace orrery::utf8
