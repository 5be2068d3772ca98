#include "engine/sampling_parameters.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

namespace orrery {

namespace {

using Json = nlohmann::json;
using P = SamplingParams;

constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr std::array parameters = {
    SamplingParameter{
        "temperature", &P::temperature, 0, 100,
        "Flattens (above 1) or sharpens (below 1) the choice; 0 always takes the likeliest token."},
    SamplingParameter{"top_k", &P::top_k, 0, infinity, "Keeps the k likeliest tokens; 0 keeps all."},
    SamplingParameter{"top_p", &P::top_p, 0, 1,
                      "Keeps the smallest set of tokens whose probabilities add up to p; 1 keeps all."},
    SamplingParameter{"min_p", &P::min_p, 0, 1,
                      "Drops tokens less likely than this share of the likeliest one; 0 drops none."},
    SamplingParameter{"typical_p", &P::typical_p, 0, 1,
                      "Keeps the tokens whose surprise is closest to the expected one; 1 is off."},
    SamplingParameter{"top_n_sigma", &P::top_n_sigma, 0, 100,
                      "Keeps logits within so many standard deviations of the largest; 0 is off."},
    SamplingParameter{"xtc_probability", &P::xtc_probability, 0, 1,
                      "The chance that all top choices but the least likely are dropped; 0 is off."},
    SamplingParameter{"xtc_threshold", &P::xtc_threshold, 0, 1,
                      "The probability from which a token counts as a top choice for XTC."},
    SamplingParameter{"dry_multiplier", &P::dry_multiplier, 0, 100,
                      "How strongly continuing a repeated passage is penalised; 0 is off."},
    SamplingParameter{"dry_base", &P::dry_base, 1, 100,
                      "How fast DRY's penalty grows with the passage's length."},
    SamplingParameter{"dry_allowed_length", &P::dry_allowed_length, 0, infinity,
                      "Repeated passages up to this many tokens are free of DRY's penalty."},
    SamplingParameter{"dry_range", &P::dry_range, -1, infinity,
                      "How many tokens DRY looks back at; -1 is all, 0 is none."},
    SamplingParameter{"repetition_penalty", &P::repetition_penalty, 0.01, 100,
                      "Makes tokens that occurred in prompt or answer less likely; 1 is off."},
    SamplingParameter{"frequency_penalty", &P::frequency_penalty, -100, 100,
                      "Taken from a token's logit for each time the answer has it; 0 is off."},
    SamplingParameter{"presence_penalty", &P::presence_penalty, -100, 100,
                      "Taken from a token's logit once the answer has it; 0 is off."},
    SamplingParameter{"penalty_range", &P::penalty_range, -1, infinity,
                      "How many tokens the repetition penalty looks back at; -1 is all, 0 is none."},
    SamplingParameter{"mirostat", &P::mirostat, 0, 2,
                      "2 steers the text's surprise to mirostat_tau instead of truncating; 0 is off."},
    SamplingParameter{"mirostat_tau", &P::mirostat_tau, 0, 100,
                      "The surprise that Mirostat aims at, in bits."},
    SamplingParameter{"mirostat_eta", &P::mirostat_eta, 0, 1, "How fast Mirostat corrects itself."},
    SamplingParameter{"logprobs", &P::logprobs, -1, 100,
                      "How many of the likeliest tokens are reported with each token; -1 is none at all."},
};

constexpr std::array stage_names = {"penalties", "dry",   "top_n_sigma", "top_k",      "typical",
                                    "top_p",     "min_p", "xtc",         "temperature"};

std::string number(double value) {
    std::ostringstream text;
    text << value;
    return std::move(text).str();
}

[[noreturn]] void refuse(const std::string& name, const Json& value, const char* wanted) {
    // A list is named and not shown: it may be endless, or nested deeper than a stack.
    std::string shown = value.is_array() ? "a list" : value.is_object() ? "an object" : value.dump();
    if (shown.size() > 60)
        shown = shown.substr(0, 57) + "...";
    throw Error("'" + name + "' is " + shown + ": it must be " + wanted + ".");
}

int64_t whole_number(const std::string& name, const Json& value, int64_t low, int64_t high) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(high)) ||
        value.get<int64_t>() < low || value.get<int64_t>() > high)
        refuse(name, value,
               ("a whole number from " + std::to_string(low) + " to " + std::to_string(high)).c_str());
    return value.get<int64_t>();
}

void set_logit_bias(P& params, const Json& value) {
    if (!value.is_object())
        refuse("logit_bias", value, "an object of token ids and numbers");
    params.logit_bias.clear();
    for (const auto& [key, bias] : value.items()) {
        const bool digits = !key.empty() && key.size() < 10 &&
                            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!digits || !bias.is_number())
            refuse("logit_bias", value, "an object of token ids and numbers");
        params.logit_bias.emplace_back(std::stoi(key), bias.get<float>());
    }
}

void set_order(P& params, const Json& value) {
    if (!value.is_array())
        refuse("order", value, "an array of stage names");
    params.order.clear();
    for (const Json& item : value) {
        const auto* const name =
            item.is_string() ? std::find(stage_names.begin(), stage_names.end(), item.get<std::string>())
                             : stage_names.end();
        if (name == stage_names.end())
            refuse("order", item,
                   "one of penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature");
        params.order.push_back(static_cast<SamplerStage>(name - stage_names.begin()));
    }
}

/// Whether a field of a request is one that set_from_json knows.
bool is_sampling_field(const std::string& key) {
    return key == "seed" || key == "logit_bias" || key == "order" ||
           std::any_of(parameters.begin(), parameters.end(), [&](const auto& p) { return key == p.name; });
}

} // namespace

double SamplingParameter::get(const SamplingParams& params) const {
    return std::visit([&](auto member) { return static_cast<double>(params.*member); }, field);
}

void SamplingParameter::set(SamplingParams& params, double value) const {
    const bool whole = std::holds_alternative<int SamplingParams::*>(field);
    const double limit = whole ? std::min(high, double(std::numeric_limits<int>::max())) : high;
    // A float at its limit, as get() gives it back, lies a rounding off the limit in double: 0.01f is less.
    const double least = whole ? low : std::min(low, double(float(low)));
    const double most = whole ? limit : std::max(limit, double(float(limit)));
    if (!(value >= least && value <= most)) {
        const std::string range =
            std::isinf(high) ? "at least " + number(low) : "between " + number(low) + " and " + number(high);
        throw Error(std::string(name) + " is " + number(value) + ": it must be " + range + ".");
    }
    if (whole && value != std::floor(value))
        throw Error(std::string(name) + " is " + number(value) + ": it must be a whole number.");
    std::visit(
        [&](auto member) {
            params.*member = static_cast<std::remove_reference_t<decltype(params.*member)>>(value);
        },
        field);
}

std::span<const SamplingParameter> sampling_parameters() {
    return parameters;
}

const char* sampler_stage_name(SamplerStage stage) {
    return stage_names[static_cast<size_t>(stage)];
}

void validate(const SamplingParams& params) {
    SamplingParams scratch;
    for (const SamplingParameter& parameter : parameters)
        parameter.set(scratch, parameter.get(params));
    if (params.mirostat == 1)
        throw Error("mirostat is 1: it must be 0 (off) or 2.");
    for (const auto& [token, bias] : params.logit_bias)
        if (std::isnan(bias))
            throw Error("logit_bias of token " + std::to_string(token) + " is not a number.");
    for (size_t i = 0; i < params.order.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (params.order[i] == params.order[j])
                throw Error(std::string("order names the stage '") + sampler_stage_name(params.order[i]) +
                            "' twice.");
}

void set_from_json(SamplingParams& params, const Json& object) {
    for (const SamplingParameter& parameter : parameters) {
        const auto found = object.find(parameter.name);
        if (found == object.end() || found->is_null())
            continue;
        if (found->is_boolean() && parameter.name == std::string("logprobs"))
            parameter.set(params, found->get<bool>() ? 0 : -1);
        else if (found->is_number())
            parameter.set(params, found->get<double>());
        else
            refuse(parameter.name, *found, "a number");
    }
    if (const auto seed = object.find("seed"); seed != object.end() && !seed->is_null()) {
        if (!seed->is_number_integer() || (!seed->is_number_unsigned() && seed->get<int64_t>() < 0))
            refuse("seed", *seed, "a whole number from 0 to 18446744073709551615");
        params.seed = seed->get<uint64_t>();
    }
    if (const auto bias = object.find("logit_bias"); bias != object.end() && !bias->is_null())
        set_logit_bias(params, *bias);
    if (const auto order = object.find("order"); order != object.end() && !order->is_null())
        set_order(params, *order);
}

Request request_from_json(const Json& object, std::vector<std::string>* unknown) {
    constexpr int64_t int_max = std::numeric_limits<int>::max();
    if (!object.is_object())
        refuse("request", object, "a JSON object");
    Request request;
    set_from_json(request.sampling, object);
    for (const auto& [key, value] : object.items()) {
        if (value.is_null() || is_sampling_field(key) || key == "prompt")
            continue;
        if (key == "ids") {
            if (!value.is_array())
                refuse(key, value, "an array of token ids");
            for (const Json& id : value)
                request.prompt.push_back(static_cast<TokenId>(whole_number("ids", id, 0, int_max)));
        } else if (key == "max_tokens") {
            request.max_tokens = static_cast<int>(whole_number(key, value, -1, int_max));
        } else if (key == "min_tokens") {
            request.min_tokens = static_cast<int>(whole_number(key, value, 0, int_max));
        } else if (key == "n") {
            request.samples = static_cast<int>(whole_number(key, value, 1, max_samples));
        } else if (key == "priority") {
            request.priority = static_cast<int>(whole_number(key, value, -int_max, int_max));
        } else if (key == "cache_salt") {
            request.cache_salt =
                static_cast<uint64_t>(whole_number(key, value, 0, std::numeric_limits<int64_t>::max()));
        } else if (key == "time_limit_ms") {
            request.time_limit = std::chrono::milliseconds(whole_number(key, value, 0, int_max));
        } else if (key == "ignore_eos") {
            if (!value.is_boolean())
                refuse(key, value, "true or false");
            request.ignore_eos = value.get<bool>();
        } else if (key == "stop") {
            const Json stops = value.is_string() ? Json::array({value}) : value;
            if (!stops.is_array())
                refuse(key, value, "a string or an array of strings");
            for (const Json& stop : stops) {
                if (!stop.is_string() || stop.get_ref<const std::string&>().empty())
                    refuse(key, value, "a string or an array of strings, none of them empty");
                request.stop.push_back(stop.get<std::string>());
            }
        } else if (unknown) {
            unknown->push_back(key);
        }
    }
    return request;
}

} // namespace orrery
