#include "engine/request.h"

#include "kernels/error.h"

#include <array>
#include <cmath>
#include <sstream>

namespace orrery {

const char* finish_reason_name(FinishReason reason) {
    static constexpr std::array names = {"none",      "stop_token",   "stop_string", "length",   "context_full",
                                         "cancelled", "disconnected", "time_limit",  "rejected", "error"};
    return names[static_cast<size_t>(reason)];
}

namespace {

/// Refuses a value outside of [low, high]; a NaN is outside of every range.
void require(const char* name, double value, double low, double high) {
    if (value >= low && value <= high)
        return;
    std::ostringstream text;
    text << name << " is " << value << ": it must lie between " << low << " and ";
    if (std::isinf(high))
        text << "any larger number";
    else
        text << high;
    text << '.';
    throw Error(text.str());
}

} // namespace

void validate(const SamplingParams& p) {
    require("temperature", p.temperature, 0, 100);
    require("top_k", p.top_k, 0, INFINITY);
    require("top_p", p.top_p, 0, 1);
    require("min_p", p.min_p, 0, 1);
    require("typical_p", p.typical_p, 0, 1);
    require("top_n_sigma", p.top_n_sigma, 0, 100);
    require("xtc_probability", p.xtc_probability, 0, 1);
    require("xtc_threshold", p.xtc_threshold, 0, 1);
    require("dry_multiplier", p.dry_multiplier, 0, 100);
    require("dry_base", p.dry_base, 1, 100);
    require("dry_allowed_length", p.dry_allowed_length, 0, INFINITY);
    require("dry_range", p.dry_range, -1, INFINITY);
    require("repetition_penalty", p.repetition_penalty, 0.01, 100);
    require("frequency_penalty", p.frequency_penalty, -100, 100);
    require("presence_penalty", p.presence_penalty, -100, 100);
    require("penalty_range", p.penalty_range, -1, INFINITY);
    require("mirostat_tau", p.mirostat_tau, 0, 100);
    require("mirostat_eta", p.mirostat_eta, 0, 1);
    require("logprobs", p.logprobs, -1, 100);
    if (p.mirostat != 0 && p.mirostat != 2)
        throw Error("mirostat is " + std::to_string(p.mirostat) + ": it must be 0 (off) or 2.");
    for (const auto& [token, bias] : p.logit_bias)
        if (std::isnan(bias))
            throw Error("logit_bias of token " + std::to_string(token) + " is not a number.");
}

} // namespace orrery
