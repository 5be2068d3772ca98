#include "kernels/backend.h"

#include "kernels/error.h"

#include <array>

namespace orrery::kernels {

namespace {
constexpr std::array names = {"reference", "cpu", "cuda", "auto"};
} // namespace

const char* backend_name(BackendKind kind) {
    return names[static_cast<size_t>(kind)];
}

BackendKind backend_kind(const std::string& name) {
    for (size_t i = 0; i < names.size(); ++i)
        if (name == names[i])
            return static_cast<BackendKind>(i);
    throw Error("There is no back end '" + name + "': it is one of reference, cpu, cuda, auto.");
}

} // namespace orrery::kernels
