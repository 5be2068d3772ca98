// A session with a clock of its own, as if its window were always seen.
#pragma once

#include "ui/engine_session.h"
#include "ui/frame_clock.h"

namespace orrery::test {

struct OwnClock {
    ui::FrameClock own;
};

/// The clock is a base, so that it is there before the session and goes after it.
class ClockedSession : private OwnClock, public ui::EngineSession {
public:
    explicit ClockedSession(ui::SessionOptions options = {}) : EngineSession(&own, std::move(options)) {}
};

} // namespace orrery::test
