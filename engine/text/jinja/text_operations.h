// Cutting, joining and padding of texts, as Python's str does it, for methods and filters alike.
#pragma once

#include "engine/text/jinja/value.h"

namespace orrery::jinja {

/// Without the characters of `characters` (nullptr: whitespace) at the ends.
Text strip(const Text& text, const Text* characters, bool left, bool right, Heap& heap);

/// Between runs of whitespace; at most `limit` cuts (negative: all), counted from the right end if so asked.
std::vector<Text> split_space(const Text& text, Integer limit, bool from_right, Heap& heap);
/// Between occurrences of `separator`, which must not be empty.
std::vector<Text> split(const Text& text, std::string_view separator, Integer limit, bool from_right,
                        Heap& heap);
/// Lines; the characters that end lines are those of str.splitlines.
std::vector<Text> split_lines(const Text& text, bool keep_ends, Heap& heap);

/// `replacement` in place of the first `limit` occurrences of `old` (negative: all).
Text replace(const Text& text, std::string_view old, const Text& replacement, Integer limit, Heap& heap);

/// At least `width` characters: `side` '<' puts `fill` behind the text, '>' before it, '^' on both sides, and
/// so does 'c', with an odd one on the left where the width is odd (str.center).
Text pad(const Text& text, Integer width, char side, const Text& fill, Heap& heap);

bool is_lower_text(const Text& text);
bool is_upper_text(const Text& text);

} // namespace orrery::jinja
