#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

void ReferenceBackend::route(const RouteOp&) {
    throw Error("route is not built yet.");
}
void ReferenceBackend::expert_linear(const ExpertLinearOp&) {
    throw Error("expert_linear is not built yet.");
}
void ReferenceBackend::combine_experts(const CombineExpertsOp&) {
    throw Error("combine_experts is not built yet.");
}
void ReferenceBackend::convolve(const ConvolveOp&) {
    throw Error("convolve is not built yet.");
}
void ReferenceBackend::ssm_scan(const SsmScanOp&) {
    throw Error("ssm_scan is not built yet.");
}
void ReferenceBackend::delta_rule(const DeltaRuleOp&) {
    throw Error("delta_rule is not built yet.");
}

} // namespace orrery::kernels
