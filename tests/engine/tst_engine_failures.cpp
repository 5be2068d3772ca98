// Whatever fails in the middle of a step, wherever: every sample ends exactly once, nothing that was written
// is lost or comes twice, all blocks go back, and the engine answers the next request as if nothing had been.
#include "engine/engine_loop.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "tests/engine/dictation.h"
#include "tests/support/engine_run.h"
#include "tests/support/failing_memory.h"
#include "tests/support/loop_reader.h"
#include "tests/support/random.h"
#include "tests/support/watched_backend.h"

#include <QtTest>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>

using namespace orrery;
using test::Answered;
using test::Answers;
using test::FailingMemory;
using namespace test::dictation;

namespace {

const test::TinyModelOptions tiny{.layers = 1, .hidden = 32};

/// A pool that makes sequences fork, copy, give way and come back, with and without swapping.
EngineConfig narrow(PreemptionMode preemption) {
    EngineConfig config;
    config.context = 64;
    config.block_size = 4;
    config.blocks = 16;
    config.max_step_tokens = 16;
    config.max_sequences = 5;
    config.preemption = preemption;
    config.check = true;
    return config;
}

/// Requests with something of everything.
std::vector<Request> requests_of_all_kinds() {
    std::vector<Request> requests;
    for (int i = 0; i < 7; ++i) {
        Request request;
        for (int n = 0; n < 10 + i; ++n)
            request.prompt.push_back(n < 8 ? 9 : 10 + i + n);
        request.max_tokens = 16 - i;
        request.ignore_eos = true;
        request.sampling.temperature = 1.0f;
        request.sampling.seed = uint64_t(i);
        requests.push_back(request);
    }
    requests[0].samples = 3;
    requests[1].sampling.logprobs = 3;
    requests[3].sampling.trace = true;
    requests[3].max_tokens = 1;
    requests[2].stop = {"a", "some longer text that is held back"};
    requests[2].min_tokens = 3;
    requests[3].sampling.repetition_penalty = 1.2f;
    requests[3].sampling.dry_multiplier = 0.8f;
    requests[4].prompt.assign(1000, 9); // refused
    requests[5].max_tokens = 0;
    requests[6].samples = 2;
    requests[6].time_limit = std::chrono::hours(1);
    return requests;
}

/// This one is cancelled on the way.
constexpr RequestId cancelled_one = 2;

/// Runs the requests as 1, 2, …, with everything that the engine allocates for a step under control.
Answers run_disturbed(Engine& engine, const std::vector<Request>& requests, FailingMemory& memory) {
    test::Collector collector;
    for (size_t i = 0; i < requests.size(); ++i) {
        collector.expect(i + 1, requests[i]);
        engine.add(i + 1, requests[i]);
    }
    std::vector<TokenDelta> deltas;
    for (int step = 0; !engine.idle(); ++step) {
        if (step > 10'000)
            throw Error("the engine does not come to an end");
        if (step == 3)
            engine.cancel(cancelled_one);
        {
            const FailingMemory::Within within(memory);
            if (step % 4 == 3)
                engine.end_due(deltas);
            engine.step(deltas);
        }
        collector.take(deltas);
        engine.check_integrity();
    }
    collector.check_complete(engine.model());
    return collector.answers();
}

int preemptions_of(const Answers& answers) {
    int preemptions = 0;
    for (const auto& [key, answer] : answers)
        preemptions += answer.usage.preemptions;
    return preemptions;
}

Request plain_request() {
    Request request;
    request.prompt = {9, 9, 9, 9, 9, 30, 31};
    request.max_tokens = 6;
    request.samples = 2;
    request.sampling.temperature = 1.0f;
    request.sampling.seed = 77;
    request.sampling.logprobs = 1;
    request.ignore_eos = true;
    return request;
}

} // namespace

class TestEngineFailures : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        spdlog::set_level(spdlog::level::off); // thousands of failures would be reported
        model_ = test::load_tiny(kernels::BackendKind::reference, 1, tiny);
    }

    void a_failing_device_ends_what_ran_and_no_more_data();
    void a_failing_device_ends_what_ran_and_no_more();
    void a_failing_sampler_ends_its_own_request();

    void every_allocation_of_a_step_fails_in_turn_data();
    void every_allocation_of_a_step_fails_in_turn();
    void every_call_to_the_device_fails_in_turn_data() { preemptions(); }
    void every_call_to_the_device_fails_in_turn();
    void every_allocation_between_steps_fails_in_turn();
    void every_allocation_of_the_loop_fails_in_turn();
    void memory_may_be_gone_for_a_while_data();
    void memory_may_be_gone_for_a_while();
    void a_broken_engine_ends_everything();

private:
    static void preemptions() {
        QTest::addColumn<int>("preemption");
        QTest::newRow("swap") << int(PreemptionMode::swap);
        QTest::newRow("recompute") << int(PreemptionMode::recompute);
    }

    /// Every answer is either the right one, or has ended in an error that says so. Returns how many did.
    static int errors_in(const Answers& answers, const Answers& expected) {
        int errors = 0;
        for (const auto& [key, answer] : answers) {
            const Answered& right = expected.at(key);
            const bool failed = answer.finish == FinishReason::error;
            errors += failed;
            if (failed && (!answer.error.ends_with('.') || answer.error.find("std::") != std::string::npos))
                throw Error("'" + answer.error + "' is no sentence");
            if (!failed && key.first != cancelled_one && !(answer == right))
                throw Error("another answer is disturbed: " + answer.describe());
            // What was written before the end is a beginning of the right answer.
            if (answer.tokens.size() > right.tokens.size() ||
                !std::ranges::equal(answer.tokens, std::span(right.tokens).first(answer.tokens.size())))
                throw Error("an answer goes astray: " + answer.describe());
        }
        return errors;
    }

    static Answers fresh_answers(const std::shared_ptr<Model>& model, const EngineConfig& config,
                                 const std::vector<Request>& requests) {
        Engine fresh(model, config);
        return test::run_all(fresh, requests);
    }

    std::shared_ptr<Model> model_;
};

void TestEngineFailures::a_failing_device_ends_what_ran_and_no_more_data() {
    QTest::addColumn<QString>("operation");
    for (const char* operation : {"begin", "embed", "linear", "rope_store", "attention", "gather", "download",
                                  "copy_kv_blocks", "copy_kv_blocks_out", "copy_kv_blocks_in"})
        QTest::newRow(operation) << QString(operation);
}

void TestEngineFailures::a_failing_device_ends_what_ran_and_no_more() {
    QFETCH(QString, operation);
    const std::string fails = operation.toStdString();
    auto backend =
        std::make_unique<test::WatchedBackend>(kernels::make_backend(kernels::BackendKind::reference, 1));
    test::WatchedBackend& watched = *backend;
    const auto model = test::load_tiny(std::move(backend));

    // A pool that makes sequences swap, fork and copy, so that every operation comes up.
    EngineConfig config = checked();
    config.block_size = 4;
    config.blocks = 17;
    config.preemption = PreemptionMode::swap;
    std::vector<Request> requests;
    for (int i = 0; i < 12; ++i) {
        std::vector<TokenId> prompt(size_t(9 + i % 3), 9);
        prompt.back() = TokenId(10 + i % 2);
        Request request = greedy(prompt, 20);
        request.sampling.temperature = 1.0f;
        request.sampling.seed = uint64_t(i);
        request.samples = 1 + i % 2;
        request.ignore_eos = true;
        requests.push_back(request);
    }
    Engine undisturbed(model, config);
    const Answers expected = test::run_all(undisturbed, requests);

    test::Random random(test::test_seed());
    int failures = 0, met = 0;
    watched.set_watch([&](std::string_view name) {
        if (name == fails && ++met % 23 == 11 && failures < 4) {
            failures += 1;
            throw Error("the device has failed");
        }
    });
    Engine engine(model, config);
    std::vector<Answers> rounds;
    for (int round = 0; round < 6; ++round)
        rounds.push_back(test::run_all(engine, requests));
    watched.set_watch({});
    QVERIFY(failures > 0);
    int failed = 0;
    for (const Answers& answers : rounds)
        for (const auto& [key, answer] : answers) {
            if (answer.finish == FinishReason::error) {
                failed += 1;
                QVERIFY(answer.error.find("the device has failed") != std::string::npos);
            } else {
                QVERIFY2(answer == expected.at(key), answer.describe().c_str());
            }
        }
    QVERIFY(failed > 0);
    // And after all that, the engine is as good as new.
    const Answers after = test::run_all(engine, requests);
    for (const auto& [key, answer] : after)
        QVERIFY2(answer == expected.at(key), answer.describe().c_str());
}

void TestEngineFailures::a_failing_sampler_ends_its_own_request() {
    Engine engine(model_, checked());
    Request impossible = greedy({10}, 9);
    for (TokenId token = 0; token < model_->config.vocab; ++token)
        impossible.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
    Request good = greedy({10}, 9);
    good.ignore_eos = true;
    const Answers answers = test::run_all(engine, {good, impossible, good});
    QVERIFY(answers.at({1, 0}).finish == FinishReason::length);
    QVERIFY(answers.at({2, 0}).finish == FinishReason::error);
    QVERIFY(answers.at({3, 0}).finish == FinishReason::length);
}

void TestEngineFailures::every_allocation_of_a_step_fails_in_turn_data() {
    QTest::addColumn<int>("preemption");
    QTest::addColumn<int>("backend");
    const int swap = int(PreemptionMode::swap), recompute = int(PreemptionMode::recompute);
    QTest::newRow("swap") << swap << int(kernels::BackendKind::reference);
    QTest::newRow("recompute") << recompute << int(kernels::BackendKind::reference);
    QTest::newRow("swap, the best back end") << swap << int(kernels::BackendKind::automatic);
}

void TestEngineFailures::every_allocation_of_a_step_fails_in_turn() {
    QFETCH(int, preemption);
    QFETCH(int, backend);
    const EngineConfig config = narrow(PreemptionMode(preemption));
    const auto model = test::load_tiny(kernels::BackendKind(backend), 1, tiny);
    const std::vector<Request> requests = requests_of_all_kinds();
    const Answers expected = fresh_answers(model, config, requests);
    const Answers expected_after = fresh_answers(model, config, {plain_request()});
    QVERIFY(preemptions_of(expected) > 1);

    Engine engine(model, config);
    engine.set_profiling(true);
    FailingMemory memory;
    test::Random random(test::test_seed());
    int64_t errors = 0, n = 0, rounds = 0;
    do {
        // All of the first steps; of the later ones, which are like them, some.
        n += n < 1000 ? 1 : random.between(1, 25);
        ++rounds;
        memory.fail(n);
        try {
            errors += errors_in(run_disturbed(engine, requests, memory), expected);
            memory.stop();
            QVERIFY(engine.idle());
            const Answers after = test::run_all(engine, {plain_request()});
            for (const auto& [key, answer] : expected_after)
                QVERIFY2(after.at(key) == answer, after.at(key).describe().c_str());
        } catch (const std::exception& failure) {
            QFAIL(qPrintable(QString("allocation %1: %2").arg(n).arg(failure.what())));
        }
    } while (memory.failures() > 0);
    QVERIFY(n > 100);
    QVERIFY(errors > rounds);
}

void TestEngineFailures::every_call_to_the_device_fails_in_turn() {
    QFETCH(int, preemption);
    const EngineConfig config = narrow(PreemptionMode(preemption));
    const std::vector<Request> requests = requests_of_all_kinds();
    auto backend =
        std::make_unique<test::WatchedBackend>(kernels::make_backend(kernels::BackendKind::reference, 1));
    test::WatchedBackend& watched = *backend;
    const auto model = test::load_tiny(std::move(backend), tiny);
    const Answers expected = fresh_answers(model, config, requests);
    const Answers expected_after = fresh_answers(model, config, {plain_request()});

    Engine engine(model, config);
    engine.set_profiling(true);
    FailingMemory nothing_fails;
    int64_t errors = 0, n = 0, calls = 0;
    std::set<std::string> failed;
    do {
        ++n;
        calls = 0;
        watched.set_watch([&](std::string_view operation) {
            if (++calls == n) {
                failed.emplace(operation);
                throw Error("The device has failed.");
            }
        });
        try {
            errors += errors_in(run_disturbed(engine, requests, nothing_fails), expected);
            watched.set_watch({});
            QVERIFY(engine.idle());
            const Answers after = test::run_all(engine, {plain_request()});
            for (const auto& [key, answer] : expected_after)
                QVERIFY2(after.at(key) == answer, after.at(key).describe().c_str());
        } catch (const std::exception& failure) {
            QFAIL(qPrintable(QString("call %1: %2").arg(n).arg(failure.what())));
        }
    } while (calls >= n);
    QVERIFY(errors > n / 2);
    for (const char* operation : {"begin", "embed", "linear", "rope_store", "attention", "gather", "download",
                                  "copy_kv_blocks", "take_profile"})
        QVERIFY2(failed.contains(operation), operation);
    if (PreemptionMode(preemption) == PreemptionMode::swap)
        QVERIFY(failed.contains("copy_kv_blocks_out") && failed.contains("copy_kv_blocks_in"));
}

void TestEngineFailures::every_allocation_between_steps_fails_in_turn() {
    const EngineConfig config = narrow(PreemptionMode::swap);
    const std::vector<Request> requests = requests_of_all_kinds();
    const Answers expected = fresh_answers(model_, config, requests);
    Engine engine(model_, config);
    SamplingParams penalised;
    penalised.dry_breakers = {{1, 2, 3}, {4}};
    int failures = 0;
    for (int64_t n = 1, failed_before = -1; failures != failed_before; ++n) {
        failed_before = failures;
        FailingMemory memory;
        const auto disturbed = [&](const auto& action) {
            try {
                const FailingMemory::Within within(memory);
                action();
                return true;
            } catch (const std::bad_alloc&) {
                failures += 1;
                return false;
            } catch (const OutOfMemory&) {
                failures += 1;
                return false;
            }
        };
        test::Collector collector;
        for (size_t i = 0; i < requests.size(); ++i) {
            collector.expect(i + 1, requests[i]);
            memory.fail(n);
            const Request& request = requests[i];
            const auto add = [&] { engine.add(i + 1, request); };
            if (!disturbed(add)) {
                // It was never there; so it can come again.
                engine.check_integrity();
                memory.stop();
                QVERIFY(disturbed(add));
            }
        }
        // Changes that fail are not made.
        memory.fail(n);
        if (disturbed([&] { engine.retune(2, penalised); }))
            engine.retune(2, requests[1].sampling);
        memory.fail(n);
        const EngineConfig before = engine.config();
        if (!disturbed([&] { engine.set_budgets(int(16 + n), int(5 + n), 0); })) {
            QCOMPARE(engine.config().max_step_tokens, before.max_step_tokens);
            QCOMPARE(engine.config().max_sequences, before.max_sequences);
        }
        memory.fail(n);
        disturbed([&] { engine.score({5, 6, 7, 8}); });
        engine.check_integrity();
        memory.fail(1, 1'000'000);
        disturbed([&] { engine.cancel(cancelled_one, FinishReason::disconnected); });
        QCOMPARE(memory.failures(), int64_t(0));

        std::vector<TokenDelta> deltas;
        while (!engine.idle())
            engine.step(deltas);
        collector.take(deltas);
        collector.check_complete(*model_);
        QCOMPARE(errors_in(collector.answers(), expected), 0);
        QVERIFY(collector.answers().at({cancelled_one, 0}).finish == FinishReason::disconnected);
    }
    QVERIFY(failures > 50);
}

/// As a user of the loop sees it: whatever it is that has no memory on the engine's thread, all requests end,
/// and the next one is answered.
void TestEngineFailures::every_allocation_of_the_loop_fails_in_turn() {
    const EngineConfig config = narrow(PreemptionMode::swap);
    const Answers expected = fresh_answers(model_, config, {plain_request()});
    const std::vector<Request> requests = requests_of_all_kinds();
    EngineLoop loop(std::make_unique<Engine>(model_, config));
    FailingMemory memory;
    test::LoopReader reader(loop, [&memory] { FailingMemory::take_over_thread(memory); });
    const auto answers_rightly = [&] {
        const RequestId id = reader.ask(plain_request());
        if (!reader.read_until(0))
            return false;
        const Answers& answers = reader.collector().answers();
        return answers.at({id, 0}) == expected.at({1, 0}) && answers.at({id, 1}) == expected.at({1, 1});
    };
    QVERIFY(answers_rightly()); // and the engine's thread is under control from now on
    int64_t n = 1;
    for (bool failed = true; failed; n += 1 + n / 25) {
        memory.fail(n);
        for (const Request& request : requests)
            reader.ask(request);
        QVERIFY2(reader.read_until(0), qPrintable(QString("allocation %1").arg(n)));
        failed = memory.failures() > 0;
        memory.stop();
        QVERIFY2(answers_rightly(), qPrintable(QString("after allocation %1").arg(n)));
    }
    reader.collector().check_complete(*model_);
    QVERIFY(n > 300);
}

void TestEngineFailures::memory_may_be_gone_for_a_while_data() {
    QTest::addColumn<bool>("held");
    QTest::newRow("running") << false;
    QTest::newRow("held") << true;
}

/// Memory comes back only after a while: then all ends are there, and the engine answers.
void TestEngineFailures::memory_may_be_gone_for_a_while() {
    QFETCH(bool, held);
    const EngineConfig config = narrow(PreemptionMode::swap);
    const Answers expected = fresh_answers(model_, config, {plain_request()});
    test::Random random(test::test_seed());
    EngineLoop loop(std::make_unique<Engine>(model_, config));
    FailingMemory memory;
    test::LoopReader reader(loop, [&memory] { FailingMemory::take_over_thread(memory); });
    reader.ask(plain_request());
    QVERIFY(reader.read_until(0));
    for (int round = 0; round < 40; ++round) {
        // While it is held only the coming of requests takes memory.
        memory.fail(random.between(1, held ? 100 : 3000), 1'000'000'000);
        RequestId last = 0;
        for (const Request& request : requests_of_all_kinds())
            last = reader.ask(request);
        if (held) {
            loop.pause();
            loop.cancel(last);
        }
        QTest::qWait(20);
        memory.stop();
        loop.resume();
        QVERIFY(reader.read_until(0));
        const RequestId after = reader.ask(plain_request());
        QVERIFY(reader.read_until(0));
        for (int sample = 0; sample < 2; ++sample)
            QVERIFY(reader.collector().answers().at({after, sample}) == expected.at({1, sample}));
    }
    reader.collector().check_complete(*model_);
    QVERIFY(std::ranges::any_of(reader.collector().answers(), [](const auto& entry) {
        return entry.second.finish == FinishReason::error;
    }));
}

/// It stays away for so long that the loop gives the engine up. Even so, everything ends once there is memory
/// to say it with, and so does what is asked of the broken engine.
void TestEngineFailures::a_broken_engine_ends_everything() {
    EngineLoop loop(std::make_unique<Engine>(model_, narrow(PreemptionMode::swap)));
    FailingMemory memory;
    test::LoopReader reader(loop, [&memory] { FailingMemory::take_over_thread(memory); });
    std::map<RequestId, Request> asked;
    const auto ask = [&](const Request& request) {
        const RequestId id = reader.ask(request);
        asked[id] = request;
        return id;
    };
    ask(plain_request());
    QVERIFY(reader.read_until(0));
    RequestId after = 0;
    for (const int gone_ms : {2'000, 8'000, 30'000}) { // a busy machine may count a second slowly
        memory.fail(3000, 1'000'000'000);              // the first tokens are written before
        for (const Request& request : requests_of_all_kinds())
            ask(request);
        QTest::qWait(gone_ms);
        ask(plain_request());
        memory.stop();
        QVERIFY(reader.read_until(0));
        after = ask(plain_request());
        QVERIFY(reader.read_until(0));
        if (reader.collector().answers().at({after, 0}).finish == FinishReason::error)
            break;
    }
    int written = 0;
    for (const auto& [id, request] : asked)
        for (int sample = 0; sample < request.samples; ++sample) {
            const Answered& answer = reader.collector().answers().at({id, sample});
            QCOMPARE(answer.usage.completion_tokens, int(answer.tokens.size()));
            if (answer.finish != FinishReason::error)
                continue;
            QVERIFY(answer.error.ends_with('.'));
            QCOMPARE(answer.usage.prompt_tokens, int(request.prompt.size()));
            written += int(answer.tokens.size());
        }
    QVERIFY(written > 0);
    for (int sample = 0; sample < 2; ++sample)
        QVERIFY(reader.collector().answers().at({after, sample}).finish == FinishReason::error);
    loop.pause(); // commands find nothing to do, and the end comes as ever
    loop.run_steps(3);
    loop.cancel(after);
}

QTEST_GUILESS_MAIN(TestEngineFailures)
#include "tst_engine_failures.moc"
