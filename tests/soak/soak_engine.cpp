// Lets an engine live through a long random life, and holds it to its laws at every step.
//
//     soak_engine --operations 200000 --seed 1 --backend cpu
//
// Requests of all kinds come, are cancelled, retuned, forked, preempted and swapped, while budgets change;
// pools are small, so that somebody always has to give way. After every step blocks are conserved (law 2);
// every sample ends exactly once and its streamed text is the text of its tokens (law 3); and every answer is
// then compared with the one that its request gets in an empty engine (law 1).
#include "engine/engine.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/random.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

using namespace orrery;

namespace {

struct Totals {
    long long operations = 0, steps = 0, requests = 0, answers = 0, tokens = 0, compared = 0;
    long long preemptions = 0, swaps = 0, evictions = 0, cached_tokens = 0;
};

EngineConfig random_config(test::Random& random) {
    EngineConfig config;
    config.context = 240;
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

/// One engine from its first request to its last.
class Life {
public:
    Life(const std::shared_ptr<Model>& model, uint64_t seed, Totals& totals)
        : model_(model),
          random_(seed),
          totals_(totals),
          config_(random_config(random_)),
          engine_(model, config_) {}

    void run(int operations) {
        for (int i = 0; i < operations; ++i) {
            totals_.operations += 1;
            const int choice = random_.below(100);
            if (choice < 2)
                for (int n = random_.between(5, 30); n > 0; --n)
                    add();
            else if (choice < 14)
                add();
            else if (choice < 18)
                cancel();
            else if (choice < 22)
                retune();
            else if (choice < 24)
                engine_.set_budgets(random_.between(1, 200), random_.between(1, 30), random_.below(40));
            else if (choice < 26)
                settle();
            else
                step();
        }
        for (int steps = 0; !engine_.idle(); ++steps) {
            if (steps > 200'000)
                throw Error("the engine does not come to an end");
            step();
        }
        collector_.check_complete(*model_);
        compare_with_solo_runs();
    }

private:
    void add() {
        if (pool_.empty())
            pool_ = test::mixed_requests(random_, 32, model_->config.vocab);
        Request request = pool_.back();
        pool_.pop_back();
        if (random_.chance(0.3) && !requests_.empty()) {
            // The next turn of a conversation, or the same question again.
            const RequestId earlier = RequestId(random_.between(1, int(requests_.size())));
            request.prompt = requests_.at(earlier).prompt;
            request.cache_salt = requests_.at(earlier).cache_salt;
            if (const auto answer = collector_.answers().find({earlier, 0});
                answer != collector_.answers().end())
                request.prompt.insert(request.prompt.end(), answer->second.tokens.begin(),
                                      answer->second.tokens.end());
            if (random_.chance(0.5))
                request.prompt.push_back(random_.below(model_->config.vocab));
        }
        if (random_.chance(0.02))
            request.prompt.resize(size_t(random_.below(400)), -1); // refused, or shorter
        if (random_.chance(0.02))
            request.time_limit = std::chrono::milliseconds(random_.below(20));
        const RequestId id = RequestId(requests_.size() + 1);
        requests_[id] = request;
        collector_.expect(id, request);
        engine_.add(id, request);
        totals_.requests += 1;
    }

    void cancel() {
        const RequestId id = RequestId(random_.between(1, int(requests_.size()) + 1));
        engine_.cancel(id, random_.chance(0.5) ? FinishReason::cancelled : FinishReason::disconnected);
    }

    void retune() {
        if (requests_.empty())
            return;
        const RequestId id =
            RequestId(random_.between(std::max(1, int(requests_.size()) - 20), int(requests_.size())));
        SamplingParams params = requests_.at(id).sampling;
        params.temperature = 1.0f;
        params.top_k = random_.between(1, 50);
        engine_.retune(id, params);
        retuned_.insert(id);
    }

    void settle() {
        engine_.settle(deltas_);
        engine_.check_integrity();
        collector_.take(deltas_);
    }

    void step() {
        const StepReport& report = engine_.step(deltas_);
        totals_.steps += 1;
        totals_.preemptions += int(report.preemptions.size());
        totals_.swaps += std::ranges::count(report.preemptions, PreemptionKind::swap, &Preemption::kind);
        totals_.evictions +=
            std::ranges::count(report.block_events, BlockEventKind::evicted, &BlockEvent::kind);
        if (report.blocks_free + report.blocks_cached + report.blocks_held != report.blocks_total)
            throw Error("the report loses blocks");
        collector_.take(deltas_);
    }

    void compare_with_solo_runs() {
        EngineConfig config;
        config.context = config_.context;
        config.kv_type = config_.kv_type;
        config.block_size = config_.block_size;
        // Of the same capacity, or the context would be full elsewhere.
        config.blocks = config_.blocks;
        config.prefix_cache = false;
        config.max_sequences = test_samples;
        Engine solo(model_, config);
        for (const auto& [id, request] : requests_) {
            if (retuned_.contains(id))
                continue;
            Request untimed = request;
            untimed.time_limit.reset();
            const test::Answers expected = test::run_all(solo, {untimed});
            for (int sample = 0; sample < request.samples; ++sample) {
                const test::Answered& wanted = expected.at({1, sample});
                const test::Answered& found = collector_.answers().at({id, sample});
                const bool cut = found.finish == FinishReason::cancelled ||
                                 found.finish == FinishReason::disconnected ||
                                 found.finish == FinishReason::time_limit;
                const bool same =
                    cut ? found.tokens.size() <= wanted.tokens.size() &&
                              std::equal(found.tokens.begin(), found.tokens.end(), wanted.tokens.begin())
                        : found == wanted;
                if (!same)
                    throw Error("request " + std::to_string(id) + " sample " + std::to_string(sample) +
                                " wrote " + found.describe() + "; alone it writes " + wanted.describe());
                totals_.compared += 1;
            }
        }
        for (const auto& [key, answer] : collector_.answers()) {
            totals_.answers += 1;
            totals_.tokens += (long long)(answer.tokens.size());
            totals_.cached_tokens += answer.usage.cached_tokens;
        }
    }

    static constexpr int test_samples = 4;

    std::shared_ptr<Model> model_;
    test::Random random_;
    Totals& totals_;
    EngineConfig config_;
    Engine engine_;
    test::Collector collector_;
    std::vector<TokenDelta> deltas_;
    std::vector<Request> pool_;
    std::map<RequestId, Request> requests_;
    std::set<RequestId> retuned_;
};

} // namespace

int main(int argc, char** argv) {
    long long operations = 2000;
    uint64_t seed = std::random_device()();
    kernels::BackendKind backend = kernels::BackendKind::reference;
    int threads = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i], value = argv[i + 1];
        if (name == "--operations")
            operations = std::atoll(value.c_str());
        else if (name == "--seed")
            seed = std::strtoull(value.c_str(), nullptr, 10);
        else if (name == "--backend")
            backend = kernels::backend_kind(value);
        else if (name == "--threads")
            threads = std::atoi(value.c_str());
        else
            return std::fprintf(
                       stderr,
                       "usage: soak_engine [--operations N] [--seed S] [--backend NAME] [--threads N]\n"),
                   2;
    }
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    Totals totals;
    const auto model = test::load_tiny(backend, threads);
    constexpr int operations_of_a_life = 1000;
    for (uint64_t life = 0; totals.operations < operations; ++life) {
        try {
            Life(model, seed + life, totals)
                .run(int(std::min<long long>(operations_of_a_life, operations - totals.operations)));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "--seed %llu --operations %d: %s\n",
                         static_cast<unsigned long long>(seed + life), operations_of_a_life, error.what());
            return 1;
        }
    }
    std::printf(
        "%lld operations, %lld steps, %lld requests, %lld answers (%lld compared with solo runs), %lld "
        "tokens, "
        "%lld preemptions (%lld by swap), %lld evictions, %lld prompt tokens from the cache: all laws held\n",
        totals.operations, totals.steps, totals.requests, totals.answers, totals.compared, totals.tokens,
        totals.preemptions, totals.swaps, totals.evictions, totals.cached_tokens);
    return 0;
}
