// The table of model architectures that can be run. What a file does not say about its model (how heads
// are rotated, say) follows from the architecture's name.
#pragma once

#include "kernels/backend.h"

#include <string>
#include <string_view>

namespace orrery {

struct Architecture {
    std::string_view name; ///< as it stands in general.architecture, and before the '.' of its own fields
    kernels::RopeStyle rope_style = kernels::RopeStyle::interleaved;
};

/// The architecture of this name, or nullptr.
const Architecture* find_architecture(std::string_view name);

/// All names, for people: "llama, qwen2".
std::string architecture_names();

} // namespace orrery
