#include "engine/engine_loop.h"

#include "engine/admission.h"
#include "engine/platform/system.h"
#include "engine/reserve_more.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <condition_variable>
#include <functional>
#include <map>
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

/// A request whose end has not been written to the text queue.
struct Open {
    explicit Open(const Request& request)
        : prompt_tokens(int(request.prompt.size())),
          tokens(size_t(std::clamp(request.samples, 1, max_samples))) {
        for (size_t sample = 0; sample < tokens.size(); ++sample)
            samples.set(sample);
    }

    int prompt_tokens;
    std::bitset<max_samples> samples; ///< those that have not ended
    std::vector<int> tokens;          ///< of each sample, so far
    bool lost = false;                ///< the engine does not have it: the loop itself is to end it
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
    void add(RequestId id, Request&& request);
    void advance();
    void keep_account(size_t first);
    void end_lost();
    void publish();
    bool all_said() const { return deltas.empty() && !any_lost; }

    std::unique_ptr<Engine> engine; ///< the engine's thread alone, but for its model
    const EngineConfig config;      ///< as it was in the beginning

    // Commands in.
    std::mutex mutex;
    std::condition_variable woken;
    std::vector<Command> commands;
    std::map<RequestId, Open> open; ///< what was submitted and has not ended
    bool ending = false;            ///< nothing is asked for any more
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
    bool any_lost = false;
    bool broken = false; ///< the engine is not to be touched any more
    int retries = 0;     ///< how often in succession the engine found no memory to end what failed
    bool paused = false;
    int64_t allowed_steps = 0; ///< while paused

    std::thread thread;
};

/// Sleeps until there is something to do: a command, the end, a time limit, or another try at what there was
/// no memory for.
void EngineLoop::Impl::wait_for_work(std::unique_lock<std::mutex>& lock) {
    if (!all_said() || retries > 0) {
        woken.wait_for(lock, retry_interval, [this] { return !commands.empty(); });
        return;
    }
    const auto called = [this] { return !commands.empty() || ending; };
    const auto deadline = broken ? std::nullopt : engine->next_deadline();
    if (deadline)
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
        const bool may_step = !broken && !engine->idle() && (!paused || allowed_steps > 0);
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
    if (!broken)
        engine->cancel_all();
    return !all_said() || !(broken || engine->idle());
}

void EngineLoop::Impl::main() {
    platform::set_thread_name("engine");
    while (drain()) {
        if (!broken && !engine->idle())
            advance();
        end_lost();
        publish();
    }
}

/// A request comes in, or is to be ended at once.
void EngineLoop::Impl::add(RequestId id, Request&& request) {
    try {
        if (broken)
            throw Error("the engine is broken.");
        engine->add(id, std::move(request));
    } catch (const std::exception& failure) {
        spdlog::error("Request {} could not be taken: {}", id, failure.what());
        const std::lock_guard lock(mutex);
        if (const auto it = open.find(id); it != open.end()) // else it ended when the engine broke
            it->second.lost = any_lost = true;
    }
}

/// A step or, while the engine is held, only what ends without one.
void EngineLoop::Impl::advance() {
    const size_t first = deltas.size();
    try {
        if (paused && allowed_steps == 0) {
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
        retries += 1;
        broken = retries > max_retries;
    } catch (const std::exception& failure) {
        spdlog::critical("The engine is broken: {}", failure.what());
        broken = true;
    }
    keep_account(first);
    if (broken) {
        spdlog::critical("The engine is not run any more.");
        retries = 0;
        const std::lock_guard lock(mutex);
        for (auto& [id, request] : open)
            request.lost = any_lost = true;
    }
}

/// Notes what the deltas from `first` on say: what ends with them is open no longer.
void EngineLoop::Impl::keep_account(size_t first) {
    const std::lock_guard lock(mutex);
    for (size_t i = first; i < deltas.size(); ++i) {
        const TokenDelta& delta = deltas[i];
        const auto it = open.find(delta.request);
        if (it == open.end())
            continue;
        Open& request = it->second;
        request.tokens[size_t(delta.sample)] += delta.token.has_value();
        if (delta.finish != FinishReason::none)
            request.samples.reset(size_t(delta.sample));
        if (request.samples.none())
            open.erase(it);
    }
}

/// Ends what the engine does not have, as far as there is memory to say so.
void EngineLoop::Impl::end_lost() {
    if (!any_lost)
        return;
    const std::lock_guard lock(mutex);
    try {
        for (auto it = open.begin(); it != open.end();) {
            auto& [id, request] = *it;
            for (size_t sample = 0; request.lost && sample < max_samples; ++sample) {
                if (!request.samples[sample])
                    continue;
                TokenDelta delta;
                delta.request = id;
                delta.sample = int(sample);
                delta.finish = FinishReason::error;
                delta.usage.prompt_tokens = request.prompt_tokens;
                delta.usage.completion_tokens = request.tokens[sample];
                delta.error = broken
                                  ? "The engine has broken; the log says how. Load the model again to go on."
                                  : "There was no memory left for the request.";
                deltas.push_back(std::move(delta));
                request.samples.reset(sample);
            }
            it = request.samples.none() ? open.erase(it) : std::next(it);
        }
        any_lost = false;
    } catch (const std::bad_alloc&) {
        // Tried again before long.
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
    std::map<RequestId, Open> fresh;
    auto node = fresh.extract(fresh.emplace(id, request).first);
    Impl& loop = *impl_;
    {
        const std::lock_guard lock(loop.mutex);
        if (loop.open.contains(id))
            throw Error("There is a request " + std::to_string(id) + " already.");
        loop.commands.push_back(
            [id, request = std::move(request)](Impl& its) mutable { its.add(id, std::move(request)); });
        loop.open.insert(std::move(node));
    }
    loop.woken.notify_one();
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
