#include "engine/parameter_table.h"

#include "kernels/error.h"

#include <algorithm>
#include <limits>

/// The window shows meanings, units and special values in the user's language; `ninja update_translations`
/// finds them by this name.
#define QT_TRANSLATE_NOOP(context, text) text

namespace orrery {

namespace {

using Json = nlohmann::json;
using P = SamplingParams;
using R = Request;

constexpr double int_max = std::numeric_limits<int>::max();

constexpr auto tokens = QT_TRANSLATE_NOOP("Parameters", "tokens");
constexpr auto off = QT_TRANSLATE_NOOP("Parameters", "off");
constexpr auto all = QT_TRANSLATE_NOOP("Parameters", "all");
constexpr auto none = QT_TRANSLATE_NOOP("Parameters", "none");

constexpr Parameter table[] = {
    {.name = "temperature",
     .field = &P::temperature,
     .lowest = 0,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Flattens the distribution above 1 and sharpens it below; at "
                                                "0 the likeliest token is always taken")},
    {.name = "top_k",
     .field = &P::top_k,
     .lowest = 0,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Keeps the k likeliest tokens"),
     .special = {{{0, all}}}},
    {.name = "top_p",
     .field = &P::top_p,
     .lowest = 0,
     .highest = 1,
     .meaning =
         QT_TRANSLATE_NOOP("Parameters", "Keeps the smallest set of tokens whose probabilities add up to p"),
     .special = {{{1, all}}}},
    {.name = "min_p",
     .field = &P::min_p,
     .lowest = 0,
     .highest = 1,
     .meaning = QT_TRANSLATE_NOOP("Parameters",
                                  "Drops tokens that are less likely than this share of the likeliest one"),
     .special = {{{0, off}}}},
    {.name = "typical_p",
     .field = &P::typical_p,
     .lowest = 0,
     .highest = 1,
     .meaning = QT_TRANSLATE_NOOP(
         "Parameters", "Keeps the tokens whose surprise is closest to the expected one, until their "
                       "probabilities add up to p"),
     .special = {{{1, off}}}},
    {.name = "top_n_sigma",
     .field = &P::top_n_sigma,
     .lowest = 0,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP(
         "Parameters", "Keeps the tokens whose logits lie within n standard deviations of the largest"),
     .special = {{{0, off}}}},
    {.name = "xtc_probability",
     .field = &P::xtc_probability,
     .lowest = 0,
     .highest = 1,
     .meaning = QT_TRANSLATE_NOOP(
         "Parameters", "Probability that all top choices but the least likely of them are dropped"),
     .special = {{{0, off}}}},
    {.name = "xtc_threshold",
     .field = &P::xtc_threshold,
     .lowest = 0,
     .highest = 1,
     .meaning =
         QT_TRANSLATE_NOOP("Parameters", "Probability from which a token counts as a top choice for XTC")},
    {.name = "dry_multiplier",
     .field = &P::dry_multiplier,
     .lowest = 0,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Strength of DRY's penalty on continuing a repeated passage"),
     .special = {{{0, off}}}},
    {.name = "dry_base",
     .field = &P::dry_base,
     .lowest = 1,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters",
                                  "Factor of DRY's penalty for each further token of the repeated passage")},
    {.name = "dry_allowed_length",
     .field = &P::dry_allowed_length,
     .lowest = 0,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Length of repeated passages up to which DRY has no penalty"),
     .unit = tokens},
    {.name = "dry_range",
     .field = &P::dry_range,
     .lowest = -1,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "How far DRY looks back for repeated passages"),
     .unit = tokens,
     .special = {{{-1, all}, {0, none}}}},
    {.name = "dry_breakers",
     .field = &P::dry_breakers,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Sequences of token ids that end a repeated passage")},
    {.name = "repetition_penalty",
     .field = &P::repetition_penalty,
     .lowest = 0.01,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters",
                                  "Makes tokens that occurred in the prompt or the answer less likely"),
     .special = {{{1, off}}}},
    {.name = "frequency_penalty",
     .field = &P::frequency_penalty,
     .lowest = -100,
     .highest = 100,
     .meaning =
         QT_TRANSLATE_NOOP("Parameters", "Is taken from a token's logit for each time the answer has it"),
     .special = {{{0, off}}}},
    {.name = "presence_penalty",
     .field = &P::presence_penalty,
     .lowest = -100,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Is taken from a token's logit as soon as the answer has it"),
     .special = {{{0, off}}}},
    {.name = "penalty_range",
     .field = &P::penalty_range,
     .lowest = -1,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "How far the repetition penalty looks back"),
     .unit = tokens,
     .special = {{{-1, all}, {0, none}}}},
    {.name = "mirostat",
     .field = &P::mirostat,
     .lowest = 0,
     .highest = 2,
     .meaning = QT_TRANSLATE_NOOP(
         "Parameters", "Steers the surprise of the text to a target, in place of the stages that drop "
                       "tokens"),
     .special = {{{0, off}, {2, QT_TRANSLATE_NOOP("Parameters", "Mirostat 2")}}},
     .only_limits = true},
    {.name = "mirostat_tau",
     .field = &P::mirostat_tau,
     .lowest = 0,
     .highest = 100,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Surprise that Mirostat aims at"),
     .unit = QT_TRANSLATE_NOOP("Parameters", "bits per token")},
    {.name = "mirostat_eta",
     .field = &P::mirostat_eta,
     .lowest = 0,
     .highest = 1,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Learning rate of Mirostat")},
    {.name = "logit_bias",
     .field = &P::logit_bias,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Numbers added to the logits of tokens before all stages")},
    {.name = "order",
     .field = &P::order,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "The sampler's stages that run, first to last")},
    {.name = "seed",
     .field = &P::seed,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "The same seed gives the same answer"),
     .absent = QT_TRANSLATE_NOOP("Parameters", "a fresh one")},
    {.name = "logprobs",
     .field = &P::logprobs,
     .lowest = -1,
     .highest = 100,
     .meaning =
         QT_TRANSLATE_NOOP("Parameters", "How many of the likeliest tokens are reported with each token"),
     .special = {{{0, QT_TRANSLATE_NOOP("Parameters", "only the token's own log-probability")},
                  {-1, QT_TRANSLATE_NOOP("Parameters", "no log-probabilities")}}},
     .flag_as_limit = true},

    {.name = "ids",
     .field = &R::prompt,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "The prompt as token ids")},
    {.name = "max_tokens",
     .field = &R::max_tokens,
     .lowest = -1,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "The answer ends after so many tokens"),
     .special = {{{-1, QT_TRANSLATE_NOOP("Parameters", "when the context is full")}}}},
    {.name = "min_tokens",
     .field = &R::min_tokens,
     .lowest = 0,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters",
                                  "End tokens and stop strings do not end the answer before so many tokens")},
    {.name = "stop",
     .field = &R::stop,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Strings that end the answer; they are not part of it")},
    {.name = "ignore_eos",
     .field = &R::ignore_eos,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "End tokens do not end the answer")},
    {.name = "n",
     .field = &R::samples,
     .lowest = 1,
     .highest = max_samples,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "How many answers the prompt gets")},
    {.name = "priority",
     .field = &R::priority,
     .lowest = -int_max,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "Higher goes first under the priority policy")},
    {.name = "cache_salt",
     .field = &R::cache_salt,
     .meaning =
         QT_TRANSLATE_NOOP("Parameters", "Requests share cached prefixes only with those of the same salt")},
    {.name = "time_limit_ms",
     .field = &R::time_limit,
     .lowest = 0,
     .highest = int_max,
     .meaning = QT_TRANSLATE_NOOP("Parameters", "The answer ends after this time"),
     .unit = QT_TRANSLATE_NOOP("Parameters", "milliseconds"),
     .absent = none},
};

} // namespace

std::span<const Parameter> parameters() {
    return table;
}

const Parameter& parameter(std::string_view name) {
    const auto* const found = std::ranges::find(table, name, &Parameter::name);
    if (found == std::end(table))
        throw Error("There is no parameter '" + std::string(name) + "'.");
    return *found;
}

void validate(const SamplingParams& params) {
    Request request;
    request.sampling = params;
    validate(request);
}

void validate(const Request& request) {
    for (const Parameter& parameter : table)
        parameter.validate(request);
}

Request request_from_json(const Json& object, std::vector<std::string>* unknown, Request request) {
    if (!object.is_object())
        refuse_value("the request", object, "an object");
    for (const Parameter& parameter : table)
        if (const auto value = object.find(parameter.name); value != object.end() && !value->is_null())
            parameter.read(request, *value);
    if (unknown)
        for (const auto& [key, value] : object.items())
            if (key != "prompt" && std::ranges::find(table, key, &Parameter::name) == std::end(table))
                unknown->push_back(key);
    return request;
}

Json request_to_json(const Request& request) {
    Json object = Json::object();
    for (const Parameter& parameter : table)
        if (Json value = parameter.write(request); !value.is_null())
            object[parameter.name] = std::move(value);
    return object;
}

} // namespace orrery
