// CPU back ends on every code path of this machine, and the two ways of comparing what they bring.
#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_features.h"

#include <QByteArray>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace orrery::kernels::test {

inline std::unique_ptr<Backend> make_cpu(int threads, const char* isa) {
    qputenv("ORRERY_CPU_ISA", isa);
    std::string why_not;
    auto backend = make_cpu_backend(threads, why_not);
    qunsetenv("ORRERY_CPU_ISA");
    return backend;
}

/// The code paths that run here; none on a processor without AVX2.
inline std::vector<const char*> isas() {
    std::vector<const char*> names;
    const cpu::IsaLevel best = cpu::cpu_features().best();
    if (best >= cpu::IsaLevel::avx2)
        names.push_back("avx2");
    if (best >= cpu::IsaLevel::avx512_vnni)
        names.push_back("avx512");
    return names;
}

/// √(Σ (a − b)² / Σ b²); infinite where a number is none.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
    double difference = 0.0, size = 1e-30;
    for (size_t i = 0; i < want.size(); ++i) {
        const double d = double(got[i]) - double(want[i]);
        difference += d * d;
        size += double(want[i]) * double(want[i]);
    }
    const double error = std::sqrt(difference / size);
    return std::isnan(error) ? INFINITY : error;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
    return std::memcmp(a, b, count * sizeof(float)) == 0;
}

/// low … high, both included.
inline int number(int low, int high, std::mt19937& random) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}
inline bool coin(std::mt19937& random) {
    return random() % 2 == 0;
}
template <class T>
T one_of(std::initializer_list<T> choices, std::mt19937& random) {
    return choices.begin()[random() % choices.size()];
}

} // namespace orrery::kernels::test
