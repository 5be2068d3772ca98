// The variables that a piece of a template sees.
#pragma once

#include "engine/text/jinja/value.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::jinja {

/// Variables of one scope; what is not there is looked up in the scope around it.
class Scope {
public:
    explicit Scope(std::shared_ptr<Scope> around) : around_(std::move(around)) {}

    void set(std::string_view name, Value value);
    const Value* find(std::string_view name) const;
    void clear() { variables_.clear(); }

private:
    std::shared_ptr<Scope> around_;
    std::vector<std::pair<std::string, Value>> variables_;
};

using ScopePtr = std::shared_ptr<Scope>;

} // namespace orrery::jinja
