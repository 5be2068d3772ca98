// JSON in both directions: the context that comes in, and the filter tojson.
#pragma once

#include "engine/text/jinja/value.h"

#include <nlohmann/json.hpp>

namespace orrery::jinja {

/// A value of the context. Throws Fault where it is nested too deep.
Value import_json(const nlohmann::ordered_json& json, Heap& heap, bool trusted);

struct JsonLayout {
    bool ascii_only = false;
    std::optional<Text> indent; ///< of one level; none: everything on one line
    Text item_separator{", ", false};
    Text key_separator{": ", false};
    bool sort_keys = false;
};

/// json.dumps(value, …) of Python. Throws Fault where the value has no JSON form.
Text dump_json(const Value& value, const JsonLayout& layout, Heap& heap);

} // namespace orrery::jinja
