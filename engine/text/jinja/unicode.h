// Character classes and case mappings as Python's str has them (the Unicode Character Database).
#pragma once

#include "engine/text/jinja/text.h"

namespace orrery::jinja {

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_printable(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
inline bool is_alnum(char32_t c) {
    return is_alpha(c) || is_numeric(c);
}

/// Case mappings of a whole text; a character's images carry its trust.
Text to_lower(const Text& text);
Text to_upper(const Text& text);
Text to_casefold(const Text& text);
/// The first letter of each run of letters in title case, the others lower.
Text to_title(const Text& text);
/// The first character in title case, the others lower.
Text to_capitalized(const Text& text);
Text swap_case(const Text& text);

} // namespace orrery::jinja
