// Python's two ways to format texts: "%s of %d" % (a, b) and "{} of {:>3}".format(a, b).
#pragma once

#include "engine/text/jinja/callable.h"

namespace orrery::jinja {

/// format % arguments. Throws Fault where Python raises TypeError or ValueError.
Value percent_format(Interpreter& interpreter, const Value& format, const Value& arguments);

/// format.format(*positional, **named), with Python's fields, conversions and format specifications.
Value brace_format(Interpreter& interpreter, const Value& format, const Arguments& arguments);

} // namespace orrery::jinja
