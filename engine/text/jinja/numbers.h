// Filters of numbers: int, float, round, abs, filesizeformat.
#pragma once

#include "engine/text/jinja/callable.h"

namespace orrery::jinja {

Value absolute(Interpreter& interpreter, const Value& value, const Arguments& arguments);
Value to_integer(Interpreter& interpreter, const Value& value, const Arguments& arguments);
Value to_float(Interpreter& interpreter, const Value& value, const Arguments& arguments);
Value round_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments);
Value file_size(Interpreter& interpreter, const Value& value, const Arguments& arguments);

} // namespace orrery::jinja
