// The back end that computes on the processor's cores.
//
// Operations are recorded as phases and run as one program in synchronize(), with one wake-up of the worker
// threads (see thread_pool.h). Quantised weights are multiplied in integers: they are packed at load
// (packed_weight.h), activations are rounded to int8 in groups of 32. Float weights are multiplied in
// float32, straight from the file's bytes.
//
// Back ends that come from one another by share() use one thread pool under a lock: their programs run one
// after the other, each on all cores. With a pool each, twice as many threads would share the same cores and
// caches, and each phase would wait for the items of threads that do not run.
#pragma once

#include "kernels/backend.h"

#include <memory>
#include <string>

namespace orrery::kernels {

/// The CPU back end with `threads` threads (0: one per physical core that this process may use), or null
/// with the reason in `why_not` where this processor cannot run any of its code paths. The environment
/// variable ORRERY_CPU_ISA ("avx2" or "avx512") forces a path; Error where it asks for what is not there.
/// `why` becomes DeviceInfo::why.
std::unique_ptr<Backend> make_cpu_backend(int threads, std::string& why_not, std::string why = {});

} // namespace orrery::kernels
