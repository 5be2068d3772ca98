#include "kernels/cpu/cpu_backend.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/kernel_table.h"

#include <utility>

namespace orrery::kernels {

namespace cpu {

const KernelTable& kernels_for(IsaLevel level) {
    return level == IsaLevel::avx512_vnni ? avx512_vnni_kernels() : avx2_kernels();
}

} // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, std::string& why_not, std::string why) {
    const cpu::IsaLevel level = cpu::choose_isa();
    if (level == cpu::IsaLevel::none) {
        why_not = "this processor lacks " + cpu::cpu_features().missing_for_avx2();
        return nullptr;
    }
    return std::make_unique<cpu::CpuBackend>(cpu::kernels_for(level), threads, std::move(why));
}

} // namespace orrery::kernels
