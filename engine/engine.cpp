#include "engine/engine.h"

#include "engine/admission.h"
#include "engine/model/gguf.h"
#include "engine/reserve_more.h"
#include "engine/run/cache_plan.h"
#include "engine/run/model_runner.h"
#include "engine/run/score.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence_group.h"
#include "engine/stop_watch.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <type_traits>

namespace orrery {

namespace {

using Clock = std::chrono::steady_clock;

int64_t nanoseconds(Clock::duration duration) {
    return std::chrono::nanoseconds(duration).count();
}

std::string not_drawn(const std::exception& failure) {
    return "The next token could not be drawn: " + sentence_of(failure);
}

// A delta that is complete joins the others without fail, once there is room for it.
static_assert(std::is_nothrow_move_constructible_v<TokenDelta>);

} // namespace

struct Engine::Impl {
    Impl(std::shared_ptr<Model> its_model, const EngineConfig& asked);

    void add(RequestId id, Request request);
    void add(Ledger::Ticket ticket, Request&& request) noexcept;
    void enter(OpenRequest& open, const Request& request);
    void enqueue(OpenRequest& open, const Request& request);
    const StepReport& step(std::vector<TokenDelta>& deltas);
    const StepReport* end_due(std::vector<TokenDelta>& deltas);
    std::vector<float> score(const std::vector<TokenId>& ids);
    void set_budgets(int max_step_tokens, int max_sequences, int max_chunk);
    void check_integrity() const;

    // The phases of a step.
    void iterate(std::vector<TokenDelta>& deltas, bool held);
    void run_plan(StopWatch& watch, std::vector<TokenDelta>& deltas);
    void order_expired();
    void enter_ordered_ends(std::vector<TokenDelta>& deltas);
    void describe(const StepPlan& plan);
    bool run(const StepPlan& plan, StopWatch& watch, std::vector<TokenDelta>& deltas);
    void sample();
    void prepare_draw(SampleSequence& sequence, int row);
    void fork_samples(SampleSequence& first, int row);
    void publish(std::vector<TokenDelta>& deltas);
    void end_report();
    void count_queues();
    void measure_costs();
    void fail_all(const std::exception& failure, std::vector<TokenDelta>& deltas);

    void break_down(const char* what) noexcept;

    TokenDelta delta_of(const OpenRequest& request, int sample) const;
    void end(OpenRequest& request, int sample, FinishReason reason, const EndSentence& error,
             std::vector<TokenDelta>& deltas);
    void close(OpenRequest& request, int sample, FinishReason reason, TokenDelta& delta) noexcept;

    std::shared_ptr<Model> model;
    EngineConfig config;
    AnswerRules rules;
    std::unique_ptr<kernels::Backend> backend;
    Decoder decoder;
    ModelRunner runner;
    BlockStore store;
    HostSwap swap;
    Scheduler scheduler;

    Clock::time_point made = Clock::now();
    uint64_t arrivals = 0;
    Ledger ledger;
    std::set<std::pair<Clock::time_point, RequestId>> deadlines;
    int unforked = 0; ///< samples of all groups that wait for their sample 0

    bool broken = false;
    /// Made ahead of time: there may be no memory when they are needed.
    const EndSentence no_memory =
        std::make_shared<const std::string>("There was no memory left for the request.");
    const EndSentence engine_broken = std::make_shared<const std::string>(
        "The engine has broken; the log says how. Load the model again to go on.");

    // The step that is running.
    struct Draw {
        SampleSequence* sequence;
        int row;   ///< of the step's logits
        int query; ///< of `queries`; −1: the device does not know its chain
        Sample sample;
        std::string error; ///< why nothing could be drawn
    };
    std::vector<SampleSequence*>
        due; ///< those whose next token can be drawn, in the order of the rows of logits
    std::vector<Draw> draws;
    std::vector<kernels::SampleQuery> queries; ///< draws that the device does
    std::vector<LogitChange> changes;          ///< of all queries
    StepReport report;
    PreemptionCosts costs;
    bool profiling = false;
};

Engine::Impl::Impl(std::shared_ptr<Model> its_model, const EngineConfig& asked)
    : model(std::move(its_model)),
      config(plan_cache(asked, *model)),
      rules(*model, std::min(config.context, config.blocks * config.block_size)),
      backend(model->backend->share()),
      decoder(model->weights, *backend),
      runner(decoder, *backend, cache_specs(config, model->config), rules.capacity),
      store(config.blocks, config.block_size, config.prefix_cache),
      swap(*backend, config.swap_bytes, runner.block_bytes(), config.blocks),
      scheduler(store, swap, config.policy, config.preemption,
                {config.max_step_tokens, config.max_sequences, config.max_chunk}) {
    runner.reserve(config.max_step_tokens, config.max_sequences);
    store.record(&report);
}

// ---------------------------------------------------------------- what is asked for between steps

void Engine::Impl::add(RequestId id, Request request) {
    OpenRequest* const open = ledger.open(Ledger::ticket(id, request));
    if (!open)
        throw Error("There is a request " + std::to_string(id) + " already.");
    try {
        enter(*open, request);
    } catch (...) {
        ledger.withdraw(*open);
        throw;
    }
}

void Engine::Impl::add(Ledger::Ticket ticket, Request&& request) noexcept {
    const RequestId id = ticket.key();
    OpenRequest* const open = ledger.open(std::move(ticket));
    try {
        if (open)
            enter(*open, request);
        else
            spdlog::error("Request {} is dropped: there is one of this id already.", id);
    } catch (const std::exception& failure) {
        if (open)
            ledger.order_end(*open, FinishReason::error, no_memory);
        try {
            spdlog::error("Request {} could not be added: {}", id, failure.what());
        } catch (const std::exception&) {
            // Its end says as much.
        }
    }
}

/// A request that is open is queued, or its end is ordered. Where it throws, it has neither.
void Engine::Impl::enter(OpenRequest& open, const Request& request) {
    if (broken)
        return ledger.order_end(open, FinishReason::error, engine_broken);
    const Admission admission = validate(request, model->config.vocab, rules.capacity, config);
    if (admission.reason != FinishReason::none)
        return ledger.order_end(open, admission.reason, std::make_shared<const std::string>(admission.error));
    open.group = std::make_unique<SequenceGroup>(open);
    try {
        enqueue(open, request);
    } catch (...) {
        for (const auto& sequence : open.group->sequences)
            scheduler.remove(*sequence);
        if (open.group->deadline)
            deadlines.erase({*open.group->deadline, open.id});
        open.group.reset();
        throw;
    }
}

/// Makes the sequences of a valid request in its group, and hands them to the scheduler.
void Engine::Impl::enqueue(OpenRequest& open, const Request& request) {
    SequenceGroup& group = *open.group;
    const uint64_t seed = request.sampling.seed.value_or(fresh_seed());
    const uint64_t arrival = ++arrivals;
    for (int i = 0; i < request.samples; ++i) {
        SampleSequence& sequence =
            *group.sequences.emplace_back(std::make_unique<SampleSequence>(group, rules, request, seed, i));
        sequence.request = sequence.table.request = open.id;
        sequence.table.salt = request.cache_salt;
        sequence.sample = i;
        sequence.priority = request.priority;
        sequence.arrival = arrival;
        sequence.prompt_tokens = int32_t(request.prompt.size());
        sequence.max_length = int32_t(
            request.max_tokens < 0
                ? rules.capacity
                : std::min<int64_t>(rules.capacity, int64_t(request.prompt.size()) + request.max_tokens));
        sequence.tokens = request.prompt;
    }
    // A limit past the end of the clock never passes.
    const auto left = std::chrono::floor<std::chrono::milliseconds>(Clock::time_point::max() - open.added);
    if (request.time_limit && *request.time_limit < left) {
        group.deadline = open.added + std::max(*request.time_limit, std::chrono::milliseconds(0));
        deadlines.emplace(*group.deadline, open.id);
    }
    // Without a cache there is nothing to share.
    const bool forks_wait = request.samples > 1 && !config.naive;
    for (int i = 0; i < (forks_wait ? 1 : request.samples); ++i)
        scheduler.enqueue(*group.sequences[size_t(i)]);
    group.forks_wait = forks_wait;
    unforked += forks_wait ? request.samples - 1 : 0;
}

void Engine::Impl::set_budgets(int max_step_tokens, int max_sequences, int max_chunk) {
    if (max_step_tokens < 1 || max_sequences < 1 || max_chunk < 0)
        throw Error("Budgets of " + std::to_string(max_step_tokens) + " tokens, " +
                    std::to_string(max_sequences) + " sequences and chunks of " + std::to_string(max_chunk) +
                    " tokens make no sense: the first two are at least 1, the last at least 0.");
    // Sequences that run already go on running, so there may be more of them than the new limit.
    const int outputs = std::max(max_sequences, int(scheduler.running().size()));
    runner.reserve(max_step_tokens, outputs);
    config.max_step_tokens = max_step_tokens;
    config.max_sequences = max_sequences;
    config.max_chunk = max_chunk;
    scheduler.set_limits({max_step_tokens, max_sequences, max_chunk});
}

// ---------------------------------------------------------------- one step

const StepReport& Engine::Impl::step(std::vector<TokenDelta>& deltas) {
    iterate(deltas, false);
    return report;
}

const StepReport* Engine::Impl::end_due(std::vector<TokenDelta>& deltas) {
    const bool out_of_time = !deadlines.empty() && deadlines.begin()->first <= Clock::now();
    if (!ledger.first_ordered() && !out_of_time)
        return nullptr;
    iterate(deltas, true);
    return broken ? nullptr : &report;
}

/// One step; `held`, one in which nothing runs.
void Engine::Impl::iterate(std::vector<TokenDelta>& deltas, bool held) {
    const auto start = Clock::now();
    const uint64_t number = report.number + 1;
    report.reset();
    report.number = number;
    report.start_ns = nanoseconds(start - made);
    if (broken) {
        enter_ordered_ends(deltas);
        return ledger.forget_ended();
    }
    try {
        StopWatch watch(start);
        order_expired();
        enter_ordered_ends(deltas);
        watch.lap(report.publish_ns);
        if (!held)
            run_plan(watch, deltas);
        end_report();
        watch.lap(report.publish_ns);
        report.duration_ns = nanoseconds(Clock::now() - start);
        if (config.check || ledger.empty())
            check_integrity();
    } catch (const std::exception& failure) {
        fail_all(failure, deltas);
        report.duration_ns = nanoseconds(Clock::now() - start);
    }
}

void Engine::Impl::run_plan(StopWatch& watch, std::vector<TokenDelta>& deltas) {
    const StepPlan& plan = scheduler.plan();
    describe(plan);
    watch.lap(report.schedule_ns);

    if (!plan.parts.empty() && run(plan, watch, deltas)) {
        scheduler.complete();
        watch.lap(report.schedule_ns);
        sample();
        watch.lap(report.sample_ns);
        publish(deltas);
    }
}

void Engine::Impl::order_expired() {
    const auto now = Clock::now();
    for (const auto& [deadline, id] : deadlines) {
        if (deadline > now)
            break;
        ledger.order_end(*ledger.find(id), FinishReason::time_limit);
    }
}

/// Ends what is ordered to end. Where it throws, the rest is still ordered.
void Engine::Impl::enter_ordered_ends(std::vector<TokenDelta>& deltas) {
    while (OpenRequest* const request = ledger.first_ordered())
        for (int sample = 0; sample < int(request->samples.size()); ++sample)
            if (request->samples[size_t(sample)].open)
                end(*request, sample, request->ordered, request->error, deltas);
}

/// Fills in what the report says of the plan.
void Engine::Impl::describe(const StepPlan& plan) {
    const auto now = Clock::now();
    due.clear();
    for (const StepPlan::Part& part : plan.parts) {
        SampleSequence& sequence = static_cast<SampleSequence&>(*part.sequence);
        if (part.catches_up())
            due.push_back(&sequence);
        if (sequence.timings.first_scheduled_ns == 0)
            sequence.timings.first_scheduled_ns = nanoseconds(now - sequence.group.request.added);

        const int after = part.first + part.tokens;
        const int again = std::clamp(sequence.max_computed - part.first, 0, part.tokens);
        const int decode =
            std::clamp(after - std::max(sequence.prompt_tokens, part.first + again), 0, part.tokens);
        report.recomputed_tokens += again;
        report.decode_tokens += decode;
        report.prefill_tokens += part.tokens - again - decode;
        const RowKind kind = again > 0 ? RowKind::recompute : decode > 0 ? RowKind::decode : RowKind::prefill;
        report.rows.push_back({sequence.request, sequence.sample, kind, part.tokens, after,
                               sequence.prompt_tokens, int32_t(sequence.table.blocks.size())});
        // Attention reads the keys and values of a span's whole context once.
        report.cache_bytes += int64_t(runner.block_bytes()) * after / config.block_size;
    }
    report.saved_tokens = plan.saved_tokens;
    report.preemptions = plan.preemptions;
    if (!plan.parts.empty())
        report.weight_bytes = int64_t(model->weights->pass_bytes(plan.tokens, !due.empty()));
}

/// Moves blocks and runs the forward pass. Returns false where it failed: the sequences of the plan have
/// ended.
bool Engine::Impl::run(const StepPlan& plan, StopWatch& watch, std::vector<TokenDelta>& deltas) {
    try {
        runner.prepare(plan, swap);
        watch.lap(report.prepare_ns);
        runner.run();
        model->file->check_intact();
        watch.lap(report.forward_ns);
        return true;
    } catch (const std::exception& failure) {
        spdlog::error("Step {} failed: {}", report.number, failure.what());
        runner.drain();
        scheduler.abandon();
        const auto why =
            std::make_shared<const std::string>("The model could not be run: " + sentence_of(failure));
        for (const ReportRow& row : report.rows)
            ledger.order_end(*ledger.find(row.request), FinishReason::error, why);
        enter_ordered_ends(deltas);
        watch.lap(report.forward_ns);
        return false;
    }
}

void Engine::Impl::sample() {
    draws.clear();
    queries.clear();
    changes.clear();
    for (size_t i = 0; i < due.size(); ++i) {
        prepare_draw(*due[i], int(i));
        if (due[i]->group.forks_wait)
            fork_samples(*due[i], int(i));
    }
    ModelRunner::Drawn drawn;
    std::string failed;
    try {
        drawn = runner.sample(queries, changes);
    } catch (const std::exception& failure) {
        runner.drain();
        failed = not_drawn(failure);
    }
    for (Draw& draw : draws) {
        if (draw.error.empty() && draw.query >= 0)
            draw.error = failed;
        if (!draw.error.empty())
            continue;
        SampleSequence& sequence = *draw.sequence;
        try {
            draw.sample = draw.query >= 0
                              ? sequence.answer.accept(drawn.results[size_t(draw.query)],
                                                       drawn.top_of(size_t(draw.query)))
                              : sequence.answer.draw(runner.read_logits(draw.row), sequence.tokens);
        } catch (const std::exception& failure) {
            draw.error = not_drawn(failure);
        }
    }
    // Only now, when every fork has been made from what was computed.
    for (const Draw& draw : draws)
        if (draw.error.empty())
            draw.sequence->tokens.push_back(draw.sample.token);
}

/// The next token of a sequence is to be drawn from a row of the step's logits.
void Engine::Impl::prepare_draw(SampleSequence& sequence, int row) {
    Draw& draw = draws.emplace_back(Draw{&sequence, row, -1, {}, {}});
    try {
        if (auto query = sequence.answer.query(sequence.tokens, changes)) {
            query->row = row;
            draw.query = int(queries.size());
            queries.push_back(*query);
        }
    } catch (const std::exception& failure) {
        draw.error = not_drawn(failure);
    }
}

/// The prompt has been read once; the other samples begin from there, with the same logits.
void Engine::Impl::fork_samples(SampleSequence& first, int row) {
    SequenceGroup& group = first.group;
    group.forks_wait = false;
    unforked -= int(group.sequences.size()) - 1;
    for (size_t i = 1; i < group.sequences.size(); ++i) {
        SampleSequence& sequence = *group.sequences[i];
        scheduler.fork(first, sequence);
        if (sequence.state == SequenceState::running) {
            sequence.timings.first_scheduled_ns = first.timings.first_scheduled_ns;
            prepare_draw(sequence, row);
        }
    }
}

void Engine::Impl::publish(std::vector<TokenDelta>& deltas) {
    const auto now = Clock::now();
    for (Draw& drawn : draws) {
        SampleSequence& sequence = *drawn.sequence;
        if (!drawn.error.empty()) {
            end(sequence.group.request, sequence.sample, FinishReason::error,
                std::make_shared<const std::string>(drawn.error), deltas);
            continue;
        }
        if (config.naive)
            sequence.computed = sequence.max_computed = 0;
        // Once the answer has taken the token, its delta is there: nothing fails in between.
        reserve_more(deltas);
        Answer::Piece piece = sequence.answer.take(drawn.sample.token, sequence.length());
        ledger.enter_token(sequence.group.request, sequence.sample);
        if (sequence.timings.first_token_ns == 0)
            sequence.timings.first_token_ns = nanoseconds(now - sequence.group.request.added);
        report.generated_tokens += 1;

        TokenDelta& delta = deltas.emplace_back(delta_of(sequence.group.request, sequence.sample));
        delta.token = drawn.sample.token;
        delta.text = std::move(piece.text);
        delta.logprob = drawn.sample.logprob;
        delta.top_logprobs = std::move(drawn.sample.top_logprobs);
        delta.trace = std::move(drawn.sample.trace);
        if (piece.finish != FinishReason::none)
            close(sequence.group.request, sequence.sample, piece.finish, delta);
    }
}

void Engine::Impl::end_report() {
    ledger.forget_ended();
    count_queues();
    measure_costs();
    if (profiling) {
        const kernels::KernelProfile profile = backend->take_profile();
        report.attention_ns = int64_t(profile.attention_ns);
        report.matmul_ns = int64_t(profile.matmul_ns);
        report.norm_ns = int64_t(profile.norm_ns);
        report.other_ns = int64_t(profile.other_ns);
    }
}

void Engine::Impl::count_queues() {
    report.running = int32_t(scheduler.running().size()) - scheduler.joined();
    report.waiting = scheduler.waiting() + unforked;
    report.swapped = scheduler.swapped();
    const BlockPool& pool = store.pool();
    report.blocks_total = pool.total();
    report.blocks_free = pool.free();
    report.blocks_cached = pool.cached();
    report.blocks_held = pool.held();
    report.blocks_swapped = swap.used();
    report.slots_unused = scheduler.unused_slots();
}

/// What a preemption would cost, from the steps so far.
void Engine::Impl::measure_costs() {
    costs.ns_per_swapped_block = runner.ns_per_swapped_block();
    // A token is computed again as part of a long chunk, where it costs far less than on its own.
    const int chunked = report.prefill_tokens + report.recomputed_tokens;
    const int tokens = chunked + report.decode_tokens;
    if (report.forward_ns > 0 && (chunked * 2 > tokens || costs.ns_per_token == 0)) {
        const double now = double(report.forward_ns) / std::max(tokens, 1);
        costs.ns_per_token = costs.ns_per_token == 0 ? now : 0.8 * costs.ns_per_token + 0.2 * now;
    }
    scheduler.set_costs(costs);
}

// ---------------------------------------------------------------- ends

TokenDelta Engine::Impl::delta_of(const OpenRequest& request, int sample) const {
    TokenDelta delta;
    delta.request = request.id;
    delta.sample = sample;
    delta.step = report.number;
    if (request.group)
        delta.seed = request.group->sequences[size_t(sample)]->answer.seed();
    return delta;
}

/// Ends an open sample, with a delta of its own. Where that fails it has not ended.
void Engine::Impl::end(OpenRequest& request, int sample, FinishReason reason, const EndSentence& error,
                       std::vector<TokenDelta>& deltas) {
    TokenDelta delta = delta_of(request, sample);
    if (request.group) {
        const SampleSequence& sequence = *request.group->sequences[size_t(sample)];
        delta.text = sequence.answer.rest(sequence.tokens);
    }
    if (error)
        delta.error = *error;
    reserve_more(deltas);
    close(request, sample, reason, deltas.emplace_back(std::move(delta)));
}

/// The one place where a sample ends: its blocks go back, the delta says why and what it cost.
void Engine::Impl::close(OpenRequest& request, int sample, FinishReason reason, TokenDelta& delta) noexcept {
    SequenceGroup* const group = request.group.get();
    if (group) {
        SampleSequence& sequence = *group->sequences[size_t(sample)];
        scheduler.remove(sequence);
        unforked -= group->forks_wait && sample > 0;
        delta.usage.cached_tokens = sequence.cached_tokens;
        delta.usage.preemptions = sequence.preemptions;
        delta.timings = sequence.timings;
    }
    delta.timings.finished_ns = nanoseconds(Clock::now() - request.added);
    if (ledger.enter_end(request, sample, reason, delta) && group && group->deadline)
        deadlines.erase({*group->deadline, request.id});
}

/// A step failed where it cannot be told which request caused it, or which sequences are intact: all requests
/// end, from wherever they stand, and what is left is an engine without requests. Where there is no memory
/// for that, their ends stay ordered.
void Engine::Impl::fail_all(const std::exception& failure, std::vector<TokenDelta>& deltas) {
    EndSentence why = no_memory;
    try {
        spdlog::error("Step {} failed, and with it all requests: {}", report.number, failure.what());
        why = std::make_shared<const std::string>("The engine failed in the middle of a step: " +
                                                  sentence_of(failure));
    } catch (const std::exception&) {
        // There is no memory even to say so.
    }
    runner.drain();
    scheduler.abandon();
    for (auto& [id, request] : ledger.requests()) {
        ledger.order_end(request, FinishReason::error, why);
        if (request.group)
            for (const auto& sequence : request.group->sequences)
                scheduler.remove(*sequence);
    }
    try {
        check_integrity();
    } catch (const Error& error) {
        break_down(error.what());
    }
    enter_ordered_ends(deltas);
    ledger.forget_ended();
    count_queues();
}

void Engine::Impl::break_down(const char* what) noexcept {
    broken = true;
    for (auto& [id, request] : ledger.requests())
        ledger.order_end(request, FinishReason::error, engine_broken);
    try {
        spdlog::critical("The engine is broken and not run any more: {}", what);
    } catch (const std::exception&) {
        // The ends of the requests say so.
    }
}

// ---------------------------------------------------------------- the rest

std::vector<float> Engine::Impl::score(const std::vector<TokenId>& ids) {
    check_tokens(ids, model->config.vocab, "The sequence");
    if (ids.size() > size_t(rules.capacity))
        throw Error("The sequence has " + std::to_string(ids.size()) + " tokens: the context holds " +
                    std::to_string(rules.capacity) + '.');
    std::vector<float> logits =
        orrery::score(ids, model->config.vocab, config.max_step_tokens, runner, store, swap);
    model->file->check_intact();
    return logits;
}

void Engine::Impl::check_integrity() const {
    std::vector<const BlockTable*> tables;
    std::vector<int32_t> slots;
    for (const auto& [id, request] : ledger.requests()) {
        if (!request.group)
            continue;
        for (const auto& sequence : request.group->sequences) {
            tables.push_back(&sequence->table);
            slots.insert(slots.end(), sequence->swap_slots.begin(), sequence->swap_slots.end());
        }
    }
    store.check_integrity(tables);
    swap.check_integrity(slots);
}

Engine::Engine(std::shared_ptr<Model> model, const EngineConfig& config)
    : impl_(std::make_unique<Impl>(std::move(model), config)) {}

Engine::~Engine() = default;

void Engine::add(RequestId id, Request request) {
    impl_->add(id, std::move(request));
}

void Engine::add(Ledger::Ticket ticket, Request&& request) noexcept {
    impl_->add(std::move(ticket), std::move(request));
}

void Engine::cancel(RequestId id, FinishReason reason) noexcept {
    if (OpenRequest* const request = impl_->ledger.find(id))
        impl_->ledger.order_end(*request, reason);
}

void Engine::cancel_all(FinishReason reason) noexcept {
    for (auto& [id, request] : impl_->ledger.requests())
        impl_->ledger.order_end(request, reason);
}

void Engine::retune(RequestId id, const SamplingParams& params) {
    check_sampling(params, impl_->model->config.vocab);
    if (const OpenRequest* const request = impl_->ledger.find(id); request && request->group)
        for (const auto& sequence : request->group->sequences)
            sequence->answer.retune(params);
}

void Engine::set_budgets(int max_step_tokens, int max_sequences, int max_chunk) {
    impl_->set_budgets(max_step_tokens, max_sequences, max_chunk);
}

bool Engine::idle() const {
    return impl_->ledger.empty();
}

const StepReport& Engine::step(std::vector<TokenDelta>& deltas) {
    return impl_->step(deltas);
}

const StepReport* Engine::end_due(std::vector<TokenDelta>& deltas) {
    return impl_->end_due(deltas);
}

bool Engine::broken() const {
    return impl_->broken;
}

void Engine::give_up() noexcept {
    impl_->break_down("there was no memory for too long.");
}

std::optional<std::chrono::steady_clock::time_point> Engine::next_deadline() const {
    return impl_->deadlines.empty() ? std::nullopt : std::optional(impl_->deadlines.begin()->first);
}

const EngineConfig& Engine::config() const {
    return impl_->config;
}

const Model& Engine::model() const {
    return *impl_->model;
}

std::vector<float> Engine::score(const std::vector<TokenId>& ids) {
    return impl_->score(ids);
}

void Engine::check_integrity() const {
    impl_->check_integrity();
}

void Engine::set_profiling(bool on) {
    impl_->profiling = on;
    impl_->backend->set_profiling(on);
}

} // namespace orrery
