// The local time of day.
#pragma once

#include <ctime>

namespace orrery::platform {

/// Now, in the time zone of the machine; safe to call from any thread.
std::tm local_time();

} // namespace orrery::platform
