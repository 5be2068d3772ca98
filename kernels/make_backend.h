// The back ends of this build by name, and the one that suits this machine.
#pragma once

#include "kernels/backend.h"

#include <memory>
#include <string>

namespace orrery::kernels {

enum class BackendKind : uint8_t { reference, cpu, cuda, automatic };

/// The word of the command line for a back end ("reference", "cpu", "cuda", "auto").
const char* backend_name(BackendKind kind);
/// The back end that a word names; throws Error for any other word.
BackendKind backend_kind(const std::string& name);

/// Makes a back end. `threads` = 0 takes one per physical core that this process may use. `automatic`
/// takes the fastest one that works here and says in DeviceInfo::why what it chose and why. Throws Error
/// where the wanted one does not work on this machine, with the reason.
std::unique_ptr<Backend> make_backend(BackendKind kind, int threads);

} // namespace orrery::kernels
