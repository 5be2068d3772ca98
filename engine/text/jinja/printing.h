// How values print: Python's str() and repr(), with the trust of the texts in them.
#pragma once

#include "engine/text/jinja/value.h"

namespace orrery::jinja {

std::string print_integer(Integer value);
/// The shortest decimal that reads back as the same float, laid out as Python does ("1.0", "1e-07", "inf").
std::string print_float(double value);

/// str(value): texts as they are, everything else as repr.
Text print(const Value& value, Heap& heap);
/// repr(value). Quotes, brackets and escapes are not trusted; characters keep what they were.
Text represent(const Value& value, Heap& heap);
/// repr() of a text, as messages quote it.
std::string in_quotes(std::string_view utf8);

/// &, <, >, ' and " as entities (the filter `escape`).
Text escape_html(const Text& text);

} // namespace orrery::jinja
