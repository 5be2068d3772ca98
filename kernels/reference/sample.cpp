#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

void ReferenceBackend::sample(const SampleOp&) {
    throw Error("sample is not built yet.");
}

} // namespace orrery::kernels
