#include "engine/platform/clock.h"

namespace orrery::platform {

std::tm local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
#ifdef _WIN32
    localtime_s(&parts, &now);
#else
    localtime_r(&now, &parts);
#endif
    return parts;
}

} // namespace orrery::platform
