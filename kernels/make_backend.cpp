#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

std::unique_ptr<Backend> make_backend(BackendKind kind, int) {
    switch (kind) {
    case BackendKind::reference:
        return std::make_unique<ReferenceBackend>();
    case BackendKind::automatic:
        return std::make_unique<ReferenceBackend>(
            ReferenceOptions{.why = "The plain reference, because this build has no faster back end."});
    case BackendKind::cpu:
        throw Error("There is no CPU back end in this build.");
    case BackendKind::cuda:
        throw Error("There is no CUDA back end in this build.");
    }
    throw Error("There is no such back end.");
}

} // namespace orrery::kernels
