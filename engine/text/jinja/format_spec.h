// Python's format specification: fill, alignment, sign, width, precision and type of one value.
#pragma once

#include "engine/text/jinja/value.h"

namespace orrery::jinja {

struct FormatSpec {
    Text fill{" ", false};
    char align = 0; ///< '<', '>', '^', '=' or 0 for the type's own
    char sign = '-';
    bool alternate = false;
    char grouping = 0; ///< ',' or '_'
    Integer width = 0;
    std::optional<int> precision;
    char type = 0;
};

/// Reads "[[fill]align][sign][#][0][width][grouping][.precision][type]". Throws Fault where it is none.
FormatSpec parse_format_spec(const Text& spec);

/// A value laid out as the specification says.
Text format_value(const Value& value, const FormatSpec& spec, Heap& heap);

/// Throws Fault unless a width or precision stays within what a text can need.
int checked_precision(Integer precision);

} // namespace orrery::jinja
