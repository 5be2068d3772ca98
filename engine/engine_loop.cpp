#include "engine/engine_loop.h"

#include "engine/admission.h"
#include "engine/platform/system.h"
#include "engine/reserve_more.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace orrery {

namespace {

/// Reports of a minute at 60 steps a second; a reader that falls behind further misses the oldest.
constexpr size_t report_ring_size = 4096;

/// How long the engine's thread waits before it tries again what it had no memory for, and how often the
/// engine itself may find none before it counts as broken: a second in all.
constexpr std::chrono::milliseconds retry_interval{10};
constexpr int max_retries = 100;

/// The last reports. A reader takes all of them at once, by exchange: neither side holds the lock for
/// longer than it takes to move one report.
class ReportRing {
public:
    /// A report that there is no memory for counts as dropped.
    void push(const StepReport& report) noexcept {
        try {
            StepReport copy = report;
            const std::lock_guard lock(mutex_);
            if (reports_.size() < report_ring_size) {
                reports_.push_back(std::move(copy));
                return;
            }
            reports_[oldest_] = std::move(copy);
            oldest_ = (oldest_ + 1) % report_ring_size;
            dropped_ += 1;
        } catch (const std::bad_alloc&) {
            const std::lock_guard lock(mutex_);
            dropped_ += 1;
        }
    }

    uint64_t take(std::vector<StepReport>& out) {
        std::vector<StepReport> reports;
        size_t oldest = 0;
        uint64_t dropped = 0;
        {
            const std::lock_guard lock(mutex_);
            reports.swap(reports_);
            std::swap(oldest, oldest_);
            std::swap(dropped, dropped_);
        }
        for (size_t i = 0; i < reports.size(); ++i)
            out.push_back(std::move(reports[(oldest + i) % reports.size()]));
        return dropped;
    }

private:
    std::mutex mutex_;
    std::vector<StepReport> reports_;
    size_t oldest_ = 0;
    uint64_t dropped_ = 0;
};

/// A request on its way to the engine's thread, with all that it takes to end it.
struct Submission {
    Ledger::Ticket ticket;
    Request request;
};

} // namespace

struct EngineLoop::Impl {
    using Command = std::function<void(Impl&)>;

    explicit Impl(std::unique_ptr<Engine> its_engine)
        : engine(std::move(its_engine)), config(engine->config()) {}

    /// What `with` does happens together with it: no other command comes in between.
    template <typename With>
    void post(Command command, With with) {
        {
            const std::lock_guard lock(mutex);
            commands.push_back(std::move(command));
            with();
        }
        woken.notify_one();
    }
    void post(Command command) {
        post(std::move(command), [] {});
    }

    void main();
    bool drain();
    void wait_for_work(std::unique_lock<std::mutex>& lock);
    void advance();
    void publish();

    std::unique_ptr<Engine> engine; ///< the engine's thread alone, but for its model
    const EngineConfig config;      ///< as it was in the beginning

    // Commands in.
    std::mutex mutex;
    std::condition_variable woken;
    std::vector<Command> commands;
    bool ending = false; ///< nothing is asked for any more
    std::atomic<bool> is_paused{false};

    // Text out.
    std::mutex text_mutex;
    std::vector<TokenDelta> text;
    std::recursive_mutex wakeup_mutex; ///< held while the wakeup is called; it may set another one
    std::shared_ptr<const std::function<void()>> wakeup;

    ReportRing reports;

    // The engine's thread alone.
    std::vector<Command> draining;
    std::vector<TokenDelta> deltas; ///< written, and not in the text queue yet
    int retries = 0; ///< how often in succession the engine has found no memory to end what failed
    bool paused = false;
    int64_t allowed_steps = 0; ///< while paused

    std::thread thread;
};

/// Sleeps until there is something to do: a command, the end, a time limit, or another try at what there was
/// no memory for.
void EngineLoop::Impl::wait_for_work(std::unique_lock<std::mutex>& lock) {
    if (!deltas.empty() || retries > 0) {
        woken.wait_for(lock, retry_interval, [this] { return !commands.empty(); });
        return;
    }
    const auto called = [this] { return !commands.empty() || ending; };
    if (const auto deadline = engine->next_deadline())
        woken.wait_until(lock, *deadline, called);
    else
        woken.wait(lock, called);
}

/// Runs what was asked for since the last step. Waits while there is nothing else to do. Returns false once
/// the loop is to end.
bool EngineLoop::Impl::drain() {
    bool last = false;
    {
        std::unique_lock lock(mutex);
        const bool may_step = !engine->idle() && (!paused || allowed_steps > 0);
        if (!may_step || retries > 0)
            wait_for_work(lock);
        draining.swap(commands);
        last = ending;
    }
    for (const Command& command : draining) {
        try {
            command(*this);
        } catch (const std::exception& failure) {
            spdlog::warn("A command to the engine failed: {}", failure.what());
        }
    }
    draining.clear();
    if (!last)
        return true;
    paused = false;
    engine->cancel_all();
    return !deltas.empty() || !engine->idle();
}

void EngineLoop::Impl::main() {
    platform::set_thread_name("engine");
    while (drain()) {
        if (!engine->idle())
            advance();
        publish();
    }
}

/// A step or, while the engine is held, only what ends without one.
void EngineLoop::Impl::advance() {
    try {
        if (engine->broken() || (paused && allowed_steps == 0)) {
            if (const StepReport* report = engine->end_due(deltas))
                reports.push(*report);
        } else {
            if (paused)
                allowed_steps -= 1;
            reports.push(engine->step(deltas));
        }
        if (engine->idle())
            allowed_steps = 0; // steps that were asked for are not saved up for the next request
        retries = 0;
    } catch (const std::bad_alloc&) {
        if (++retries > max_retries && !engine->broken())
            engine->give_up();
    }
}

/// Moves what was written to the text queue.
void EngineLoop::Impl::publish() {
    if (deltas.empty())
        return;
    bool was_empty = false;
    {
        const std::lock_guard lock(text_mutex);
        was_empty = text.empty();
        if (was_empty) {
            text.swap(deltas);
        } else {
            try {
                reserve_more(text, deltas.size());
            } catch (const std::bad_alloc&) {
                return; // tried again before long; nothing is lost
            }
            text.insert(text.end(), std::make_move_iterator(deltas.begin()),
                        std::make_move_iterator(deltas.end()));
        }
    }
    deltas.clear();
    if (!was_empty)
        return;
    const std::lock_guard lock(wakeup_mutex);
    const auto call = wakeup; // stays while it runs, whatever it sets
    if (!call)
        return;
    try {
        (*call)();
    } catch (const std::exception& failure) {
        spdlog::error("The wakeup failed: {}", failure.what());
    }
}

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine) : impl_(std::make_unique<Impl>(std::move(engine))) {
    impl_->thread = std::thread([impl = impl_.get()] { impl->main(); });
}

EngineLoop::~EngineLoop() {
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->ending = true;
    }
    impl_->woken.notify_one();
    impl_->thread.join();
}

void EngineLoop::submit(RequestId id, Request request) {
    // Everything that may fail for want of memory, before the request counts as taken.
    const auto submission = std::make_shared<Submission>(Ledger::ticket(id, request), std::move(request));
    impl_->post([submission](Impl& loop) {
        loop.engine->add(std::move(submission->ticket), std::move(submission->request));
    });
}

void EngineLoop::cancel(RequestId id, FinishReason reason) {
    impl_->post([id, reason](Impl& loop) { loop.engine->cancel(id, reason); });
}

void EngineLoop::retune(RequestId id, const SamplingParams& params) {
    check_sampling(params, model().config.vocab);
    impl_->post([id, params](Impl& loop) { loop.engine->retune(id, params); });
}

void EngineLoop::set_budgets(int max_step_tokens, int max_sequences, int max_chunk) {
    impl_->post([=](Impl& loop) { loop.engine->set_budgets(max_step_tokens, max_sequences, max_chunk); });
}

void EngineLoop::set_profiling(bool on) {
    impl_->post([on](Impl& loop) { loop.engine->set_profiling(on); });
}

void EngineLoop::pause() {
    impl_->post(
        [](Impl& loop) {
            loop.paused = true;
            loop.allowed_steps = 0;
        },
        [this] { impl_->is_paused = true; });
}

void EngineLoop::resume() {
    impl_->post([](Impl& loop) { loop.paused = false; }, [this] { impl_->is_paused = false; });
}

void EngineLoop::run_steps(int count) {
    impl_->post([count](Impl& loop) {
        if (loop.paused && !loop.engine->idle())
            loop.allowed_steps += std::max(count, 0);
    });
}

bool EngineLoop::paused() const {
    return impl_->is_paused;
}

void EngineLoop::set_wakeup(std::function<void()> wakeup) {
    std::shared_ptr<const std::function<void()>> shared;
    if (wakeup)
        shared = std::make_shared<const std::function<void()>>(std::move(wakeup));
    const std::lock_guard lock(impl_->wakeup_mutex);
    impl_->wakeup.swap(shared);
}

std::vector<TokenDelta> EngineLoop::take_deltas() {
    const std::lock_guard lock(impl_->text_mutex);
    return std::exchange(impl_->text, {});
}

uint64_t EngineLoop::take_reports(std::vector<StepReport>& reports) {
    return impl_->reports.take(reports);
}

const EngineConfig& EngineLoop::config() const {
    return impl_->config;
}

const Model& EngineLoop::model() const {
    return impl_->engine->model();
}

} // namespace orrery
