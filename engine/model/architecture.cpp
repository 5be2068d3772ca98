#include "engine/model/architecture.h"

#include <algorithm>
#include <array>

namespace orrery {

namespace {

constexpr std::array architectures = {
    // Llama 1–3, TinyLlama, SmolLM 1 and 2, Mistral 7B: the converter has permuted the rows of query and key
    // so that pairs of neighbours are turned.
    Architecture{"llama", kernels::RopeStyle::interleaved},
};

} // namespace

const Architecture* find_architecture(std::string_view name) {
    const auto* it = std::ranges::find(architectures, name, &Architecture::name);
    return it == architectures.end() ? nullptr : &*it;
}

std::string architecture_names() {
    std::string names;
    for (const Architecture& architecture : architectures)
        names += (names.empty() ? "" : ", ") + std::string(architecture.name);
    return names;
}

} // namespace orrery
