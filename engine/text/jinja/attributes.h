// Attributes and methods of Python's own types, as far as a sandbox lets templates see them.
#pragma once

#include "engine/text/jinja/callable.h"

namespace orrery::jinja {

/// The attribute `name` of `object`, or nothing where its type has none. Attributes that would change a list
/// or a dictionary are undefined and say that they are not safe, as in Jinja's immutable sandbox.
std::optional<Value> python_attribute(Interpreter& interpreter, const Value& object, std::string_view name);

/// A method of str, or nullptr.
Method find_string_method(std::string_view name);

} // namespace orrery::jinja
