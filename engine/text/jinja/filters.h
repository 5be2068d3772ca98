// The filters that follow |: Jinja's own, and tojson as Hugging Face defines it.
#pragma once

#include "engine/text/jinja/callable.h"

namespace orrery::jinja {

/// The filter of this name, or nullptr.
Method find_filter(std::string_view name);
inline bool is_filter(std::string_view name) {
    return find_filter(name) != nullptr;
}

/// Filters of one value or one text; of lists and dictionaries. nullptr where the name is not among them.
Method find_text_filter(std::string_view name);
Method find_sequence_filter(std::string_view name);

} // namespace orrery::jinja
