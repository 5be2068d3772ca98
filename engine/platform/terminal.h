// Whether a person or a program is at the other end of a standard stream.
#pragma once

namespace orrery::platform {

bool input_is_terminal();

} // namespace orrery::platform
