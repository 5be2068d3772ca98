// Template source to syntax tree.
#pragma once

#include "engine/text/jinja/ast.h"

namespace orrery::jinja {

/// Throws Error with the line and what is wrong there; also where the nesting is deeper than an interpreter
/// can follow.
Body parse_template(std::string_view source);

} // namespace orrery::jinja
