// An engine with a thread of its own, and queues for all other threads.
//
// Commands go in through a queue that the engine drains between steps; text comes out through a queue that
// never drops; reports come out through a bounded ring that drops the oldest and counts what it dropped. The
// engine never waits for its readers, and its readers never wait for the engine.
//
// Whatever happens, each sample of a request that submit() took ends exactly once: also where the engine has
// no memory for the request, and where the engine itself breaks (see Ledger).
#pragma once

#include "engine/engine.h"

#include <functional>
#include <memory>
#include <vector>

namespace orrery {

class EngineLoop {
public:
    /// Takes the engine and starts its thread.
    explicit EngineLoop(std::unique_ptr<Engine> engine);
    /// Cancels everything that runs and ends the thread; the wakeup is called for the last deltas.
    ~EngineLoop();

    // Any thread. None of these wait for a step.

    /// Takes a request under the caller's `id` (see new_request_id()), which no open request has: a second
    /// one of that id is dropped, with a line in the log. Throws std::bad_alloc; then nothing is taken.
    void submit(RequestId id, Request request);
    void cancel(RequestId id, FinishReason reason = FinishReason::cancelled);
    void retune(RequestId id, const SamplingParams& params);
    void set_budgets(int max_step_tokens, int max_sequences, int max_chunk);
    void set_profiling(bool on);
    /// Holds the engine between two steps; commands are still taken, and what is cancelled, refused or out of
    /// time ends.
    void pause();
    void resume();
    /// While paused: runs so many steps, as far as there is anything to run.
    void run_steps(int count);
    bool paused() const;

    /// Called on the engine's thread whenever the text queue stops being empty. It must return at once, and
    /// not throw. Once set_wakeup() has returned, the one before is not called any more: it waits for a call
    /// that is running, unless it is called from that call itself. So a caller must hold no lock that the
    /// wakeup takes.
    void set_wakeup(std::function<void()> wakeup);
    /// All deltas since the last call, in order; nothing is ever dropped.
    std::vector<TokenDelta> take_deltas();
    /// All reports since the last call that the ring still holds, oldest first, appended to `reports`;
    /// returns how many were dropped since the last call.
    uint64_t take_reports(std::vector<StepReport>& reports);

    /// The configuration as the engine began, with every 0 replaced by the number in force. Of it,
    /// set_budgets() changes max_step_tokens, max_sequences and max_chunk, which is not seen here.
    const EngineConfig& config() const;
    const Model& model() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace orrery
