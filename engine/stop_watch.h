// The time that each phase of a step takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace orrery {

/// Measures the phases of a step one after the other, so that together they make up the whole.
class StopWatch {
public:
    explicit StopWatch(std::chrono::steady_clock::time_point start) : last_(start) {}
    /// Adds the time since the last call to `phase`.
    void lap(int64_t& phase) {
        const auto now = std::chrono::steady_clock::now();
        phase += std::chrono::nanoseconds(now - last_).count();
        last_ = now;
    }

private:
    std::chrono::steady_clock::time_point last_;
};

} // namespace orrery
