#include "engine/text/jinja/scope.h"

namespace orrery::jinja {

void Scope::set(std::string_view name, Value value) {
    for (auto& [known, old] : variables_)
        if (known == name) {
            old = std::move(value);
            return;
        }
    variables_.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->around_.get())
        for (const auto& [known, value] : scope->variables_)
            if (known == name)
                return &value;
    return nullptr;
}

} // namespace orrery::jinja
