#include "engine/engine_loop.h"

#include "engine/admission.h"
#include "engine/platform/system.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace orrery {

namespace {

/// Reports of a minute at 60 steps a second; a reader that falls behind further misses the oldest.
constexpr size_t report_ring_size = 4096;

/// The last reports. Whoever takes them takes all at once, by exchange: neither side holds the lock for
/// longer than it takes to move one report.
class ReportRing {
public:
    void push(StepReport report) {
        const std::lock_guard lock(mutex_);
        if (reports_.size() < report_ring_size) {
            reports_.push_back(std::move(report));
        } else {
            reports_[oldest_] = std::move(report);
            oldest_ = (oldest_ + 1) % report_ring_size;
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

} // namespace

struct EngineLoop::Impl {
    using Command = std::function<void(Impl&)>;

    explicit Impl(std::unique_ptr<Engine> its_engine)
        : engine(std::move(its_engine)), config(engine->config()) {}

    void post(Command command) {
        {
            const std::lock_guard lock(mutex);
            commands.push_back(std::move(command));
        }
        woken.notify_one();
    }

    void main();
    bool drain();
    void step();
    void publish();

    std::unique_ptr<Engine> engine; ///< the engine's thread alone, but for its model
    const EngineConfig config;      ///< as it was in the beginning

    // Commands in.
    std::mutex mutex;
    std::condition_variable woken;
    std::vector<Command> commands;
    std::atomic<RequestId> last_id{0};
    std::atomic<bool> is_paused{false};

    // Text out.
    std::mutex text_mutex;
    std::vector<TokenDelta> text;
    std::function<void()> wakeup;

    ReportRing reports;

    // The engine's thread alone.
    std::vector<Command> draining;
    std::vector<TokenDelta> deltas;
    bool paused = false;
    bool ending = false;
    int64_t allowed_steps = 0; ///< while paused

    std::thread thread;
};

/// Runs what was asked for since the last step. Waits while there is nothing else to do. Returns false once
/// the loop is to end.
bool EngineLoop::Impl::drain() {
    {
        std::unique_lock lock(mutex);
        const bool may_step = !engine->idle() && (!paused || allowed_steps > 0);
        if (!may_step && !ending)
            woken.wait(lock, [this] { return !commands.empty(); });
        draining.swap(commands);
    }
    for (const Command& command : draining) {
        try {
            command(*this);
        } catch (const std::exception& failure) {
            spdlog::warn("A command to the engine failed: {}", failure.what());
        }
    }
    draining.clear();
    return !ending || !engine->idle();
}

void EngineLoop::Impl::main() {
    platform::set_thread_name("engine");
    while (drain()) {
        if (engine->idle())
            continue;
        if (paused && !ending && allowed_steps == 0) {
            try {
                engine->settle(deltas);
            } catch (const std::exception& failure) {
                spdlog::error("Ending requests while the engine is held failed: {}", failure.what());
            }
            publish();
            continue;
        }
        if (paused && allowed_steps > 0)
            allowed_steps -= 1;
        step();
        if (engine->idle())
            allowed_steps = 0; // steps that were asked for are not saved up for the next request
    }
}

void EngineLoop::Impl::step() {
    try {
        const StepReport& report = engine->step(deltas);
        reports.push(report);
    } catch (const std::exception& failure) {
        spdlog::critical("The engine is broken: {}", failure.what());
    }
    publish();
}

void EngineLoop::Impl::publish() {
    if (deltas.empty())
        return;
    bool was_empty = false;
    std::function<void()> call;
    {
        const std::lock_guard lock(text_mutex);
        was_empty = text.empty();
        if (was_empty)
            text.swap(deltas);
        else
            text.insert(text.end(), std::make_move_iterator(deltas.begin()),
                        std::make_move_iterator(deltas.end()));
        call = wakeup;
    }
    deltas.clear();
    if (was_empty && call)
        call();
}

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine) : impl_(std::make_unique<Impl>(std::move(engine))) {
    impl_->thread = std::thread([impl = impl_.get()] { impl->main(); });
}

EngineLoop::~EngineLoop() {
    impl_->post([](Impl& loop) {
        loop.engine->cancel_all();
        loop.ending = true;
    });
    impl_->thread.join();
}

RequestId EngineLoop::submit(Request request) {
    const RequestId id = ++impl_->last_id;
    impl_->post(
        [id, request = std::move(request)](Impl& loop) mutable { loop.engine->add(id, std::move(request)); });
    return id;
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
    impl_->is_paused = true;
    impl_->post([](Impl& loop) {
        loop.paused = true;
        loop.allowed_steps = 0;
    });
}

void EngineLoop::resume() {
    impl_->is_paused = false;
    impl_->post([](Impl& loop) { loop.paused = false; });
}

void EngineLoop::run_steps(int count) {
    impl_->post([count](Impl& loop) {
        if (loop.paused && !loop.engine->idle())
            loop.allowed_steps += count;
    });
}

bool EngineLoop::paused() const {
    return impl_->is_paused;
}

void EngineLoop::set_wakeup(std::function<void()> wakeup) {
    const std::lock_guard lock(impl_->text_mutex);
    impl_->wakeup = std::move(wakeup);
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
