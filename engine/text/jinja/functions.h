// Functions that every template can call: range, namespace, raise_exception, strftime_now, …
#pragma once

#include "engine/text/jinja/callable.h"

#include <ctime>

namespace orrery::jinja {

void add_functions(Heap& heap, Scope& globals);

/// datetime.strftime: the characters of `format` keep their trust, the date's are not trusted.
Text format_time(const Text& format, const std::tm& time);

} // namespace orrery::jinja
