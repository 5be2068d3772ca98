// The parameters of a request as options of the command line, made from their table.
#pragma once

#include "engine/parameter_table.h"

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>

namespace orrery::cli {

/// An option for a parameter, "--top-p" for "top_p"; parsing changes `request`, whose value is the default
/// that the help shows.
void add_parameter_option(CLI::App& verb, Request& request, const Parameter& parameter);
/// The same for every parameter of the table but those in `without`.
void add_parameter_options(CLI::App& verb, Request& request, std::span<const std::string_view> without);

/// The parameters as fields of a JSON object, for a help text: a line for each with its kind, range and
/// default.
std::string parameter_fields();

} // namespace orrery::cli
