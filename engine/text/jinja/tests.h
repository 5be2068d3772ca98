// The tests that follow `is`: defined, string, mapping, divisibleby(3), …
#pragma once

#include "engine/text/jinja/callable.h"

namespace orrery::jinja {

using Test = bool (*)(Interpreter&, const Value& value, const Arguments&);

/// The test of this name, or nullptr.
Test find_test(std::string_view name);
inline bool is_test(std::string_view name) {
    return find_test(name) != nullptr;
}

} // namespace orrery::jinja
