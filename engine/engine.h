// The engine: requests in, tokens out, one step at a time.
//
//     while (!engine.idle())
//         engine.step(deltas);
//
// is the generation loop that everything else optimises. One thread at a time uses an engine; EngineLoop
// gives it a thread of its own, and queues for all other threads.
#pragma once

#include "engine/config.h"
#include "engine/ledger.h"
#include "engine/model/model.h"
#include "engine/request.h"
#include "engine/step_report.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace orrery {

class Engine {
public:
    /// Throws Error where the configuration makes no sense, OutOfMemory where the cache does not fit.
    Engine(std::shared_ptr<Model> model, const EngineConfig& config);
    ~Engine();

    /// Takes a request. One that can never fit, or makes no sense, is not refused by an exception: it ends at
    /// the next step with FinishReason::rejected and a sentence that says why, with the numbers. Throws
    /// std::bad_alloc where the engine's host has no memory for it; then it was never there.
    /// `id` is the caller's, unique among requests that have not ended: else it throws Error.
    void add(RequestId id, Request request);
    /// The same for a request whose end is promised already: where it cannot be added, it ends at the next
    /// step with FinishReason::error. `ticket` is the request's, from Ledger::ticket(). A request whose id is
    /// in use is dropped, with a line in the log.
    void add(Ledger::Ticket ticket, Request&& request) noexcept;
    /// Ends a request at the next step. Unknown ids (it may have ended just now) are ignored; the first
    /// reason given counts.
    void cancel(RequestId id, FinishReason reason = FinishReason::cancelled) noexcept;
    void cancel_all(FinishReason reason = FinishReason::cancelled) noexcept;
    /// Swaps the sampling parameters of a running request; in force from its next token. The seed stays.
    /// Throws Error where they make no sense.
    void retune(RequestId id, const SamplingParams& params);
    /// Changes the budgets of the steps to come. What runs goes on running. Throws Error where a value makes
    /// no sense, OutOfMemory where scratch memory for larger steps is not there; then nothing is changed.
    void set_budgets(int max_step_tokens, int max_sequences, int max_chunk);

    /// Whether nothing is running, waiting or waiting to be reported.
    bool idle() const;

    /// One iteration: plan, run, sample, publish. Appends what it brought to `deltas`. The report is valid
    /// until the next step.
    ///
    /// Where the model cannot be run, the requests that were to run end with FinishReason::error. Where
    /// anything else fails, all requests do. Either way each of them ends exactly once, what the step had
    /// published stays, all blocks go back, and the engine is ready for the next request. Throws
    /// std::bad_alloc where there is no memory even to end them all; the next call goes on with it. Where the
    /// engine's block accounting is wrong afterwards, it is broken.
    const StepReport& step(std::vector<TokenDelta>& deltas);

    /// Ends what is to end (cancelled, refused, out of time) without running anything: for an engine that is
    /// held. Returns the report of these ends, numbered like a step's and valid until the next, or null where
    /// there was nothing to end. Otherwise as step().
    const StepReport* end_due(std::vector<TokenDelta>& deltas);

    /// Whether the engine is broken: nothing is run any more, and every request, later ones too, ends with
    /// FinishReason::error.
    bool broken() const;
    /// Declares it broken, where there has been no memory to end requests for too long.
    void give_up() noexcept;

    /// When the first of the requests' time limits passes, if any has one.
    std::optional<std::chrono::steady_clock::time_point> next_deadline() const;

    const EngineConfig& config() const; ///< with every 0 replaced by the number in force
    const Model& model() const;

    /// Logits of every position of `ids`, [ids, vocab], computed by this engine's own steps without adding a
    /// token. Throws Error where they do not fit the context.
    std::vector<float> score(const std::vector<TokenId>& ids);

    /// Proves that blocks are conserved: free + cached + held = all, and every reference count equals the
    /// tables that name the block. Throws Error that says what is broken.
    void check_integrity() const;

    void set_profiling(bool on);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace orrery
