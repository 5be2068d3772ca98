#include "engine/request.h"

#include <array>
#include <atomic>

namespace orrery {

RequestId new_request_id() noexcept {
    static std::atomic<RequestId> last{0};
    return ++last;
}

std::vector<SamplerStage> default_sampler_order() {
    using enum SamplerStage;
    return {penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature};
}

const char* sampler_stage_name(SamplerStage stage) {
    static constexpr std::array names = {"penalties", "dry",   "top_n_sigma", "top_k",      "typical",
                                         "top_p",     "min_p", "xtc",         "temperature"};
    return names[static_cast<size_t>(stage)];
}

const char* finish_reason_name(FinishReason reason) {
    static constexpr std::array names = {"none",         "stop_token", "stop_string",  "length",
                                         "context_full", "cancelled",  "disconnected", "time_limit",
                                         "rejected",     "error"};
    return names[static_cast<size_t>(reason)];
}

} // namespace orrery
