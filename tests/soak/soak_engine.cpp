// Lets engines live through long random lives, and holds them to their laws at every step.
//
//     soak_engine --operations 200000 --seed 1 --backend cpu     many short lives, each of another shape
//     soak_engine --requests 10000 --backend cpu --threads 2     one long life in a small pool
//
// Requests of all kinds come, are cancelled, retuned, forked, preempted and swapped, while budgets change;
// pools are small, so that there are always preemptions. After every step blocks are conserved (law 2);
// every sample ends exactly once and its streamed text is the text of its tokens (law 3); and every answer is
// compared with the one that its request gets in an empty engine (law 1), retuned at the same tokens. What
// has been compared is forgotten, so a life has no length: in the long one, memory must not grow either.
#include "engine/engine.h"
#include "engine/platform/system.h"
#include "engine/run/cache_plan.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "tests/support/engine_run.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/random.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>

using namespace orrery;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_can_be_measured = false; // a sanitizer keeps what was freed
#else
constexpr bool memory_can_be_measured = true;
#endif

struct Totals {
    long long operations = 0, steps = 0, requests = 0, ended = 0, answers = 0, tokens = 0, compared = 0;
    long long cut = 0, retuned = 0, forks = 0, scores = 0, budgets = 0;
    long long recomputes = 0, swaps = 0, evictions = 0, cached_tokens = 0;
};

constexpr int context = 240;

EngineConfig random_config(test::Random& random) {
    EngineConfig config;
    config.context = context;
    config.block_size = random.between(1, 20);
    const int one_context = (config.context + config.block_size - 1) / config.block_size;
    // From less than one context to two of them.
    config.blocks = random.between(std::max(1, one_context / 2), one_context * 2);
    config.max_sequences = random.between(1, 24);
    config.max_step_tokens = random.chance(0.1) ? random.between(1, 8) : random.between(8, 200);
    config.max_chunk = random.chance(0.5) ? 0 : random.between(1, 64);
    config.policy = random.chance(0.5) ? SchedulerPolicy::first_come : SchedulerPolicy::priority;
    config.preemption = PreemptionMode(random.below(3));
    config.swap_bytes = size_t(random.below(3)) << 17;
    config.kv_type = kernels::KvType(random.below(4));
    config.prefix_cache = random.chance(0.8);
    config.naive = random.chance(0.05);
    config.check = true;
    return config;
}

/// Hardly larger than one context, in small blocks, so that answers outgrow the block that was left for them
/// and there are preemptions. There is less swap space than pool: without a slot, a sequence is computed
/// again.
EngineConfig small_pool(const Model& model, kernels::KvType type) {
    EngineConfig config;
    config.context = context;
    config.block_size = 4;
    config.blocks = context / config.block_size + 4;
    config.max_sequences = 16;
    config.max_step_tokens = 64;
    config.policy = SchedulerPolicy::priority;
    config.preemption = PreemptionMode::swap;
    config.kv_type = type;
    size_t block_bytes = 0;
    for (const kernels::KvCacheSpec& spec : cache_specs(config, model.config))
        block_bytes += model.backend->kv_block_bytes(spec);
    config.swap_bytes = 16 * block_bytes;
    config.check = true;
    return config;
}

/// New parameters for a request on its way.
struct Retune {
    std::vector<size_t> after; ///< tokens that each sample had written
    SamplingParams params;
};

/// One engine from its first request to its last.
class Life {
public:
    Life(const std::shared_ptr<Model>& model, uint64_t seed, Totals& totals)
        : Life(model, test::Random(seed), totals) {}
    Life(const std::shared_ptr<Model>& model, const EngineConfig& config, uint64_t seed, Totals& totals)
        : Life(model, config, test::Random(seed), totals) {}

    /// Does one thing at random. New requests come only while fewer than `max_open` have not ended.
    void operate(size_t max_open) {
        totals_.operations += 1;
        const int choice = random_.below(100);
        if (choice < 2)
            for (int n = random_.between(5, 30); n > 0 && open_.size() < max_open; --n)
                add();
        else if (choice < 14 && open_.size() < max_open)
            add();
        else if (choice < 18)
            cancel();
        else if (choice < 22)
            retune();
        else if (choice < 24)
            set_budgets();
        else if (choice < 26)
            end_due();
        else if (choice < 27)
            score();
        else
            step();
    }

    /// Steps until every request has ended; then everything that they had has been given back.
    void drain() {
        for (int steps = 0; !engine_.idle(); ++steps) {
            if (steps > 200'000)
                throw Error("the engine does not come to an end");
            step();
        }
        engine_.check_integrity();
        const StepReport& report = step();
        if (!open_.empty() || report.blocks_held != 0 || report.blocks_swapped != 0 || report.running != 0 ||
            report.waiting != 0 || report.swapped != 0)
            throw Error("an idle engine holds something: " + std::to_string(open_.size()) + " requests, " +
                        std::to_string(report.blocks_held) + " blocks, " +
                        std::to_string(report.blocks_swapped) + " swapped blocks");
    }

private:
    Life(const std::shared_ptr<Model>& model, test::Random random, Totals& totals)
        : Life(model, random_config(random), random, totals) {}
    Life(const std::shared_ptr<Model>& model, const EngineConfig& config, test::Random random, Totals& totals)
        : model_(model),
          random_(random),
          totals_(totals),
          engine_(model, config),
          solo_(model, solo_config(config)) {}

    /// An engine with no other request in it, whose answers are the right ones.
    static EngineConfig solo_config(const EngineConfig& config) {
        EngineConfig solo;
        solo.context = config.context;
        solo.kv_type = config.kv_type;
        solo.block_size = config.block_size;
        // Of the same capacity, or the context would be full elsewhere.
        solo.blocks = config.blocks;
        solo.prefix_cache = false;
        solo.max_sequences = 4; // the samples of one request
        return solo;
    }

    // ---------------------------------------------------------------- what can happen

    Request draw_request() {
        if (pool_.empty())
            pool_ = test::mixed_requests(random_, 32, model_->config.vocab);
        Request request = std::move(pool_.back());
        pool_.pop_back();
        if (random_.chance(0.3) && !past_.empty()) {
            // The next turn of a conversation, or the same question again.
            const Turn& earlier = past_[size_t(random_.below(int(past_.size())))];
            request.prompt = earlier.prompt;
            request.cache_salt = earlier.salt;
            if (random_.chance(0.5))
                request.prompt.insert(request.prompt.end(), earlier.answer.begin(), earlier.answer.end());
            if (random_.chance(0.5))
                request.prompt.push_back(random_.below(model_->config.vocab));
        }
        if (random_.chance(0.02))
            request.prompt.resize(size_t(random_.below(400)), -1); // refused, or shorter
        if (random_.chance(0.02))
            request.time_limit = std::chrono::milliseconds(random_.below(20));
        if (random_.chance(0.1))
            request.sampling.seed.reset(); // the engine reports the one that it takes
        return request;
    }

    void add() {
        const RequestId id = ++last_id_;
        Request request = draw_request();
        open_[id];
        collector_.expect(id, request);
        engine_.add(id, std::move(request));
        totals_.requests += 1;
    }

    /// One that has not ended.
    RequestId some_request() { return std::next(open_.begin(), random_.below(int(open_.size())))->first; }

    void cancel() {
        // Now and then one that has ended, or never was.
        const RequestId id = open_.empty() || random_.chance(0.1)
                                 ? RequestId(random_.between(1, int(last_id_) + 1))
                                 : some_request();
        engine_.cancel(id, random_.chance(0.5) ? FinishReason::cancelled : FinishReason::disconnected);
    }

    void retune() {
        if (open_.empty())
            return;
        const RequestId id = some_request();
        const Request& request = collector_.request(id);
        Retune retune;
        retune.params = draw_request().sampling;
        // Parameters that make no sense are refused, and change nothing.
        if (random_.chance(0.1)) {
            retune.params.temperature = -1.0f;
            try {
                engine_.retune(id, retune.params);
            } catch (const Error&) {
                return;
            }
            throw Error("a temperature below 0 was taken");
        }
        for (int sample = 0; sample < request.samples; ++sample)
            retune.after.push_back(written(collector_, id, sample));
        engine_.retune(id, retune.params);
        open_.at(id).push_back(std::move(retune));
    }

    void set_budgets() {
        engine_.set_budgets(random_.between(1, 200), random_.between(1, 30), random_.below(40));
        totals_.budgets += 1;
    }

    /// Logits, too, are the same in a busy engine; it may have no blocks left for them.
    void score() {
        std::vector<TokenId> ids = draw_request().prompt;
        std::vector<float> found;
        try {
            found = engine_.score(ids);
        } catch (const Error&) {
            return;
        }
        const std::vector<float> wanted = solo_.score(ids);
        if (found.size() != wanted.size() ||
            std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float)) != 0)
            throw Error("the logits of " + std::to_string(ids.size()) +
                        " tokens are not those of an empty engine");
        totals_.scores += 1;
    }

    void end_due() {
        engine_.end_due(deltas_);
        engine_.check_integrity();
        take();
    }

    const StepReport& step() {
        const StepReport& report = engine_.step(deltas_);
        totals_.steps += 1;
        for (const Preemption& preemption : report.preemptions)
            (preemption.kind == PreemptionKind::swap ? totals_.swaps : totals_.recomputes) += 1;
        totals_.evictions +=
            std::ranges::count(report.block_events, BlockEventKind::evicted, &BlockEvent::kind);
        if (report.blocks_free + report.blocks_cached + report.blocks_held != report.blocks_total)
            throw Error("the report loses blocks");
        take();
        return report;
    }

    // ---------------------------------------------------------------- what must come of it

    static size_t written(const test::Collector& collector, RequestId id, int sample) {
        const auto answer = collector.answers().find({id, sample});
        return answer == collector.answers().end() ? 0 : answer->second.tokens.size();
    }

    void take() {
        collector_.take(deltas_);
        for (test::Collector::Complete& complete : collector_.take_complete(*model_)) {
            const auto asked = open_.extract(complete.id);
            compare(complete, asked.mapped());
            totals_.ended += 1;
            past_.push_back({std::move(complete.request.prompt), std::move(complete.answers[0].tokens),
                             complete.request.cache_salt});
            if (past_.size() > 64)
                past_.pop_front();
        }
    }

    void compare(const test::Collector::Complete& complete, const std::vector<Retune>& retunes) {
        Request request = complete.request;
        const bool refused = complete.answers[0].finish == FinishReason::rejected;
        const uint64_t seed = complete.answers[0].seed;
        if (!refused && request.sampling.seed.value_or(seed) != seed)
            throw Error("request " + std::to_string(complete.id) + " has another seed than was asked for");
        request.sampling.seed = seed;
        request.time_limit.reset();

        test::Answers alone;
        if (retunes.empty())
            alone = test::run_all(solo_, {request});
        for (int sample = 0; sample < request.samples; ++sample) {
            const test::Answered& found = complete.answers.at(size_t(sample));
            const test::Answered wanted =
                retunes.empty() ? alone.at({1, sample}) : replay(request, retunes, sample);
            const bool cut = found.finish == FinishReason::cancelled ||
                             found.finish == FinishReason::disconnected ||
                             found.finish == FinishReason::time_limit;
            if (found.seed != seed || !(cut ? found.begins(wanted) : found == wanted))
                throw Error("request " + std::to_string(complete.id) + " sample " + std::to_string(sample) +
                            " wrote " + found.describe() + "; alone it writes " + wanted.describe() + ": " +
                            difference(wanted, found));
            totals_.compared += 1;
            totals_.answers += 1;
            totals_.tokens += (long long)(found.tokens.size());
            totals_.cached_tokens += found.usage.cached_tokens;
            totals_.cut += cut;
            totals_.retuned += std::ranges::any_of(
                retunes, [&](const Retune& r) { return r.after[size_t(sample)] < found.tokens.size(); });
            totals_.forks += sample > 0 && found.usage.cached_tokens == found.usage.prompt_tokens;
        }
    }

    /// What a sample writes alone, retuned after as many tokens as it was. (Its siblings are then retuned at
    /// other tokens than they were: they have replays of their own.)
    test::Answered replay(const Request& request, const std::vector<Retune>& retunes, int sample) {
        test::Collector collector;
        collector.expect(1, request);
        solo_.add(1, request);
        std::vector<TokenDelta> deltas;
        size_t next = 0;
        while (!solo_.idle()) {
            for (; next < retunes.size() &&
                   retunes[next].after[size_t(sample)] <= written(collector, 1, sample);
                 ++next)
                solo_.retune(1, retunes[next].params);
            solo_.step(deltas);
            collector.take(deltas);
        }
        return collector.take_complete(*model_).at(0).answers.at(size_t(sample));
    }

    std::shared_ptr<Model> model_;
    test::Random random_;
    Totals& totals_;
    Engine engine_;
    Engine solo_;
    test::Collector collector_;
    std::vector<TokenDelta> deltas_;
    std::vector<Request> pool_;
    RequestId last_id_ = 0;
    std::map<RequestId, std::vector<Retune>> open_; ///< requests that have not ended

    struct Turn {
        std::vector<TokenId> prompt;
        std::vector<TokenId> answer;
        uint64_t salt = 0;
    };
    std::deque<Turn> past_; ///< the last of those that have
};

struct Options {
    long long operations = 2000;
    long long requests = 0;
    uint64_t seed = std::random_device()();
    std::string backend = "reference";
    int threads = 1;
    kernels::KvType kv_type = kernels::KvType::f16;
};

/// Many lives of engines of all shapes.
void live_often(const Options& options, const std::shared_ptr<Model>& model, Totals& totals) {
    constexpr int operations_of_a_life = 1000;
    for (uint64_t life = 0; totals.operations < options.operations; ++life) {
        try {
            Life it(model, options.seed + life, totals);
            for (int i = 0; i < operations_of_a_life && totals.operations < options.operations; ++i)
                it.operate(1000);
            it.drain();
        } catch (const std::exception& error) {
            throw Error("--seed " + std::to_string(options.seed + life) + " --operations " +
                        std::to_string(operations_of_a_life) + ": " + error.what());
        }
    }
}

/// One life of an engine that always has more to do than its pool holds.
void live_long(const Options& options, const std::shared_ptr<Model>& model, Totals& totals) {
    constexpr size_t open_requests = 40;
    constexpr long long stage = 1000;
    // What the heap may keep for itself: a leak of 1 KiB a request would be 9 MiB after 10,000.
    constexpr size_t slack_bytes = size_t(2) << 20;

    const auto start = std::chrono::steady_clock::now();
    Life life(model, small_pool(*model, options.kv_type), options.seed, totals);
    size_t warm = 0;
    for (long long next = std::min(stage, options.requests);;
         next = std::min(next + stage, options.requests)) {
        while (totals.requests < next)
            life.operate(open_requests);
        life.drain();
        const size_t resident = platform::resident_bytes();
        std::printf("%6lld requests ended, %7.1f s, resident %.2f MiB\n", totals.ended,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                    double(resident) / (1 << 20));
        std::fflush(stdout);
        if (warm == 0)
            warm = resident;
        if (memory_can_be_measured && resident > warm + slack_bytes)
            throw Error("memory grows: " + std::to_string(warm) + " bytes were resident after " +
                        std::to_string(stage) + " requests, " + std::to_string(resident) + " after " +
                        std::to_string(totals.ended));
        if (next == options.requests)
            break;
    }
    for (const auto& [what, count] : {std::pair("cancelled", totals.cut),
                                      {"retuned", totals.retuned},
                                      {"forked", totals.forks},
                                      {"recomputed", totals.recomputes},
                                      {"swapped", totals.swaps},
                                      {"found in the cache", totals.cached_tokens},
                                      {"evicted", totals.evictions},
                                      {"scored", totals.scores}})
        if (count == 0)
            throw Error(std::string("nothing was ever ") + what);
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Random lives of engines, held to their laws at every step.");
    app.add_option("--operations", options.operations, "in many lives of 1000 operations");
    app.add_option("--requests", options.requests, "one life that serves so many requests")
        ->check(CLI::Range(1, 100'000'000));
    app.add_option("--kv-type", options.kv_type, "of the one life")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, kernels::KvType>{{"f32", kernels::KvType::f32},
                                                                           {"f16", kernels::KvType::f16},
                                                                           {"int8", kernels::KvType::int8},
                                                                           {"int4", kernels::KvType::int4}}));
    app.add_option("--seed", options.seed, "the same seed gives the same lives");
    app.add_option("--backend", options.backend);
    app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    std::fflush(stdout);
    Totals totals;
    try {
        const auto model = test::load_tiny(kernels::backend_kind(options.backend), options.threads);
        if (options.requests > 0)
            live_long(options, model, totals);
        else
            live_often(options, model, totals);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(options.seed), error.what());
        return 1;
    }
    std::printf(
        "%lld operations, %lld steps, %lld requests, %lld answers (%lld compared with solo runs, %lld of "
        "them cut short, %lld retuned on the way), %lld tokens, %lld forks, %lld preemptions by recompute "
        "and %lld by swap, %lld evictions, %lld prompt tokens from the cache, %lld changes of budgets, "
        "%lld scores: all laws held\n",
        totals.operations, totals.steps, totals.requests, totals.answers, totals.compared, totals.cut,
        totals.retuned, totals.tokens, totals.forks, totals.recomputes, totals.swaps, totals.evictions,
        totals.cached_tokens, totals.budgets, totals.scores);
    return 0;
}
