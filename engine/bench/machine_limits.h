// What this machine can do at the most, measured now: the figures that a benchmark's own are held against.
#pragma once

#include <cstddef>
#include <string>

namespace orrery {

/// Bytes per second that `threads` threads read together from a working set of `bytes`, each from its own
/// part, over and over. A set that fits a cache is read from there, as a model's weights would be. The better
/// of linear passes and passes in eight streams. Sets past 512 MiB are measured at 512 MiB, where no cache
/// helps any more. Takes up to a second. Throws OutOfMemory.
double measure_read_bandwidth(int threads, size_t bytes);

/// Arithmetic per second from registers alone, `threads` threads together. A multiply-add counts as two.
struct ComputePeak {
    double ops_per_s = 0.0; ///< 0: not measured on this kind of machine
    std::string by;         ///< the instructions, such as "AVX-512 VNNI"
};
ComputePeak measure_fp32_peak(int threads);
/// Of int8 products in the vector units; matrix units (AMX) are not counted.
ComputePeak measure_int8_peak(int threads);

} // namespace orrery
