#include "kernels/make_backend.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"

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

std::unique_ptr<Backend> make_backend(BackendKind kind, int threads) {
    std::string why_not;
    switch (kind) {
    case BackendKind::reference:
        return std::make_unique<ReferenceBackend>();
    case BackendKind::automatic:
        if (auto cpu = make_cpu_backend(threads, why_not,
                                        "The processor, because this build has no back end for a GPU."))
            return cpu;
        return std::make_unique<ReferenceBackend>(
            ReferenceOptions{.why = "The plain reference, because " + why_not + "."});
    case BackendKind::cpu:
        if (auto cpu = make_cpu_backend(threads, why_not))
            return cpu;
        throw Error("The CPU back end does not work here: " + why_not + ".");
    case BackendKind::cuda:
        throw Error("There is no CUDA back end in this build.");
    }
    throw Error("There is no such back end.");
}

} // namespace orrery::kernels
