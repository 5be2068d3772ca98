// Ctrl-C (SIGINT). It ends the program with status 130, at once or, while an answer is being written, as soon
// as what there is of it has been printed.
#pragma once

namespace orrery::cli {

/// 128 and the number of SIGINT, as shells count.
inline constexpr int interrupted_status = 130;

/// From here on Ctrl-C ends the process at once.
void exit_on_interrupt();

/// While one is alive, the first Ctrl-C only sets interrupted(); the second ends the process at once.
class InterruptGuard {
public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    bool interrupted() const;
};

} // namespace orrery::cli
