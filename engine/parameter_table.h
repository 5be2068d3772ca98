// The parameters of a request as a table: the name, range, unit and meaning of each stand there once, and its
// default in SamplingParams and Request. The checks, JSON, the command line with its help, and the window's
// knobs are made from it.
#pragma once

#include "engine/parameter.h"

#include <span>

namespace orrery {

/// All parameters: those of sampling first, then those of the request.
std::span<const Parameter> parameters();
/// The row of this name. Throws Error where there is none.
const Parameter& parameter(std::string_view name);

/// Throws Error with the field, the value and what it must be where a value makes no sense.
void validate(const SamplingParams& params);
/// Likewise of all parameters but the prompt.
void validate(const Request& request);

/// A request from the fields of a JSON object; one that is absent or null is that of `defaults`. "prompt" as
/// a text is the caller's, who has the tokenizer. Other unknown fields are appended to `unknown`, where it is
/// given. Throws Error for a value of the wrong kind or range.
Request request_from_json(const nlohmann::json& object, std::vector<std::string>* unknown = nullptr,
                          Request defaults = {});
/// The object that request_from_json makes this request from.
nlohmann::json request_to_json(const Request& request);

} // namespace orrery
