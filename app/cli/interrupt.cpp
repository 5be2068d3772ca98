#include "app/cli/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace orrery::cli {

namespace {

volatile std::sig_atomic_t guarded = 0;
volatile std::sig_atomic_t noted = 0;

extern "C" void on_interrupt(int) {
    if (!guarded || noted)
        std::_Exit(interrupted_status);
    noted = 1;
    std::signal(SIGINT, on_interrupt); // some systems take a handler away once it has run
}

} // namespace

void exit_on_interrupt() {
    std::signal(SIGINT, on_interrupt);
}

InterruptGuard::InterruptGuard() {
    noted = 0;
    guarded = 1;
}

InterruptGuard::~InterruptGuard() {
    guarded = 0;
}

bool InterruptGuard::interrupted() const {
    return noted != 0;
}

} // namespace orrery::cli
