// Randomness for tests: every run tries other cases, and a run that failed can be had again.
#pragma once

#include <QtTest>

#include <cstdint>
#include <random>

namespace orrery::test {

/// The seed of this run: the environment variable ORRERY_TEST_SEED, or a fresh one. It is printed, so that
/// a failure can be repeated.
inline uint64_t test_seed() {
    static const uint64_t seed = [] {
        bool given = false;
        const uint64_t value = qEnvironmentVariable("ORRERY_TEST_SEED").toULongLong(&given);
        return given ? value : std::random_device()();
    }();
    qInfo("seed %llu (ORRERY_TEST_SEED)", static_cast<unsigned long long>(seed));
    return seed;
}

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    /// A whole number in [0, n).
    int below(int n) { return int(engine_() % uint64_t(n)); }
    /// A whole number in [low, high].
    int between(int low, int high) { return low + below(high - low + 1); }
    bool chance(double probability) { return double(engine_() >> 11) * 0x1p-53 < probability; }
    uint64_t bits() { return engine_(); }

private:
    std::mt19937_64 engine_;
};

} // namespace orrery::test
