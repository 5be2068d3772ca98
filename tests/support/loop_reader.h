// Reads an engine's loop as a window would: waits to be woken, and takes what there is.
#pragma once

#include "engine/engine_loop.h"
#include "tests/support/engine_run.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace orrery::test {

class LoopReader {
public:
    /// `on_wake` is called on the engine's thread whenever it wakes the reader.
    explicit LoopReader(EngineLoop& loop, std::function<void()> on_wake = {}) : loop_(loop) {
        loop.set_wakeup([this, on_wake = std::move(on_wake)] {
            if (on_wake)
                on_wake();
            const std::lock_guard lock(mutex_);
            woken_ += 1;
            wake_.notify_one();
        });
    }
    ~LoopReader() { loop_.set_wakeup({}); }
    LoopReader(const LoopReader&) = delete;
    LoopReader& operator=(const LoopReader&) = delete;

    /// Submits a request, the answer to which is read here.
    RequestId ask(const Request& request) {
        const RequestId id = new_request_id();
        loop_.submit(id, request);
        expect(id, request);
        return id;
    }
    /// The same for a request that was submitted elsewhere.
    void expect(RequestId id, const Request& request) {
        collector_.expect(id, request);
        open_ += request.samples;
    }

    /// Reads until no more than `open` samples have not ended. Returns false where nothing comes for half a
    /// minute.
    bool read_until(int open) {
        while (open_ > open) {
            {
                std::unique_lock lock(mutex_);
                if (!wake_.wait_for(lock, std::chrono::seconds(30), [this] { return woken_ > 0; }))
                    return false;
                woken_ = 0;
            }
            read();
        }
        return true;
    }

    void read() {
        std::vector<TokenDelta> deltas = loop_.take_deltas();
        for (const TokenDelta& delta : deltas)
            open_ -= delta.finish != FinishReason::none;
        collector_.take(deltas);
    }

    const Collector& collector() const { return collector_; }

private:
    EngineLoop& loop_;
    Collector collector_;
    int open_ = 0;
    std::mutex mutex_;
    std::condition_variable wake_;
    int woken_ = 0;
};

} // namespace orrery::test
