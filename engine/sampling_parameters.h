// The sampling parameters as a table: one place for their names, ranges and meanings, from which the
// command line, JSON and the checks are made.
#pragma once

#include "engine/request.h"

#include <nlohmann/json.hpp>

#include <span>
#include <variant>

namespace orrery {

/// One number of SamplingParams: `name` in JSON ("top_p"; on the command line "--top-p"), its range, and what
/// it does in one sentence.
struct SamplingParameter {
    const char* name;
    std::variant<float SamplingParams::*, int SamplingParams::*> field;
    double low;
    double high; ///< infinity: no limit
    const char* help;

    double get(const SamplingParams& params) const;
    /// Throws Error with the name, the value and the range where the value lies outside, and where a fraction
    /// is given for a whole number.
    void set(SamplingParams& params, double value) const;
};

std::span<const SamplingParameter> sampling_parameters();

/// Throws Error with the field, the value and the allowed range where a value makes no sense.
void validate(const SamplingParams& params);

/// Changes `params` by the fields of a JSON object that name sampling parameters; besides the table's these
/// are "seed" (a whole number), "logit_bias" (an object of token id to number), "order" (an array of stage
/// names) and "logprobs" (also true and false). Other fields are left alone. Throws Error for a value of the
/// wrong kind or range.
void set_from_json(SamplingParams& params, const nlohmann::json& object);

/// A request from a JSON object: "ids", and the fields of set_from_json, "max_tokens", "min_tokens", "stop"
/// (a string or an array of strings), "ignore_eos", "n", "priority", "cache_salt", "time_limit_ms". A text
/// prompt is the caller's, who has the tokenizer. Unknown fields are appended to `unknown`, where it is
/// given.
Request request_from_json(const nlohmann::json& object, std::vector<std::string>* unknown = nullptr);

/// The word for a stage, such as "top_k".
const char* sampler_stage_name(SamplerStage stage);

} // namespace orrery
