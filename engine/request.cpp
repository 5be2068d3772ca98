#include "engine/request.h"

#include <array>

namespace orrery {

const char* finish_reason_name(FinishReason reason) {
    static constexpr std::array names = {"none",         "stop_token", "stop_string",  "length",
                                         "context_full", "cancelled",  "disconnected", "time_limit",
                                         "rejected",     "error"};
    return names[static_cast<size_t>(reason)];
}

} // namespace orrery
