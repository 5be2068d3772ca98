// What the engine promises about requests, one by one.
#include "engine/engine.h"
#include "engine/run/cache_plan.h"
#include "kernels/error.h"
#include "tests/engine/dictation.h"
#include "tests/support/engine_run.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/naive_llama.h"
#include "tests/support/random.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

using namespace orrery;
using test::Answered;
using test::Answers;
using namespace test::dictation;

class TestEngine : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { model_ = test::load_tiny(); }

    void requests_that_make_no_sense_are_rejected_data();
    void requests_that_make_no_sense_are_rejected();
    void what_never_fits_the_pool_is_rejected();
    void configurations_that_make_no_sense_are_refused();
    void memory_that_is_not_there_is_refused();

    void a_seed_is_reported_and_can_be_used_again();
    void retune_is_in_force_from_the_next_token();
    void samples_share_the_prompt();
    void a_later_turn_starts_from_a_hit();

    void score_gives_the_logits_of_all_positions();
    void reports_add_up();
    void every_open_sample_stands_in_a_queue();
    void budgets_are_kept();
    void a_context_beyond_the_pool_costs_nothing();
    void absurd_budgets_change_nothing_data();
    void absurd_budgets_change_nothing();

private:
    std::shared_ptr<Model> model_;
};

void TestEngine::requests_that_make_no_sense_are_rejected_data() {
    QTest::addColumn<Request>("request");
    QTest::addColumn<QStringList>("says");
    Request r = greedy({}, 4);
    QTest::newRow("no prompt") << r << QStringList{"prompt", "empty"};
    r = greedy({5, 100'000}, 4);
    QTest::newRow("token too large") << r << QStringList{"100000", "position 1"};
    r = greedy({-1}, 4);
    QTest::newRow("negative token") << r << QStringList{"-1", "position 0"};
    r = greedy(std::vector<TokenId>(64, 5), 4);
    QTest::newRow("prompt as long as the context") << r << QStringList{"64"};
    r = greedy(std::vector<TokenId>(1000, 5), 4);
    QTest::newRow("prompt too long") << r << QStringList{"1000", "64"};
    r = greedy({5}, -7);
    QTest::newRow("max_tokens") << r << QStringList{"max_tokens", "-7"};
    r = greedy({5}, 4);
    r.min_tokens = -1;
    QTest::newRow("min_tokens") << r << QStringList{"min_tokens", "-1"};
    r = greedy({5}, 4);
    r.samples = 0;
    QTest::newRow("no samples") << r << QStringList{"samples", "0"};
    r.samples = 1'000'000;
    QTest::newRow("too many samples") << r << QStringList{"samples", "1000000"};
    r = greedy({5}, 4);
    r.stop = {"a", ""};
    QTest::newRow("empty stop string") << r << QStringList{"stop"};
    r = greedy({5}, 4);
    r.sampling.top_p = 7;
    QTest::newRow("sampling parameter") << r << QStringList{"top_p", "7"};
    r = greedy({5}, 4);
    r.sampling.logit_bias = {{5000, 1.0f}};
    QTest::newRow("bias of no token") << r << QStringList{"logit_bias", "5000"};
}

void TestEngine::requests_that_make_no_sense_are_rejected() {
    QFETCH(Request, request);
    QFETCH(QStringList, says);
    Engine engine(model_, checked());
    std::vector<TokenDelta> deltas;
    engine.add(1, request);
    engine.add(2, greedy({5}, 3)); // not disturbed by it
    int refusals = 0;
    for (int i = 0; !engine.idle(); ++i) {
        QVERIFY(i < 10);
        engine.step(deltas);
    }
    for (const TokenDelta& delta : deltas)
        if (delta.request == 1) {
            QVERIFY(delta.finish == FinishReason::rejected);
            QCOMPARE(delta.step, uint64_t(1));
            for (const QString& word : says)
                QVERIFY2(QString::fromStdString(delta.error).contains(word), delta.error.c_str());
            QVERIFY(delta.error.ends_with('.'));
            refusals += 1;
        }
    QCOMPARE(refusals, std::clamp(request.samples, 1, max_samples)); // one for each sample (law 3)
    QCOMPARE(deltas.back().request, RequestId(2));
    QVERIFY(deltas.back().finish == FinishReason::length);
}

void TestEngine::what_never_fits_the_pool_is_rejected() {
    EngineConfig config = checked();
    config.blocks = 2;
    Engine engine(model_, config);
    const Answers answers = test::run_all(
        engine, {greedy(std::vector<TokenId>(32, 5), 4), greedy(std::vector<TokenId>(31, 5), -1)});
    QVERIFY(answers.at({1, 0}).finish == FinishReason::rejected);
    for (const char* number : {"32", "3 blocks", "2 of 16"})
        QVERIFY2(answers.at({1, 0}).error.find(number) != std::string::npos,
                 answers.at({1, 0}).error.c_str());
    QVERIFY(answers.at({2, 0}).finish == FinishReason::context_full);
    QCOMPARE(answers.at({2, 0}).tokens.size(), size_t(1));
}

void TestEngine::configurations_that_make_no_sense_are_refused() {
    const auto says = [&](auto change, const char* word) {
        EngineConfig config = checked();
        change(config);
        try {
            const Engine engine(model_, config);
        } catch (const Error& error) {
            return std::string(error.what()).find(word) != std::string::npos;
        }
        return false;
    };
    QVERIFY(says([](EngineConfig& c) { c.context = -1; }, "context is -1"));
    QVERIFY(says([](EngineConfig& c) { c.context = 1; }, "context is 1"));
    QVERIFY(says([](EngineConfig& c) { c.block_size = 0; }, "block_size is 0"));
    QVERIFY(says([](EngineConfig& c) { c.blocks = -5; }, "blocks is -5"));
    QVERIFY(says([](EngineConfig& c) { c.max_step_tokens = -1; }, "max_step_tokens is -1"));
    QVERIFY(says([](EngineConfig& c) { c.max_sequences = 0; }, "max_sequences is 0"));
    QVERIFY(says([](EngineConfig& c) { c.max_chunk = -1; }, "max_chunk is -1"));
}

void TestEngine::memory_that_is_not_there_is_refused() {
    EngineConfig config = checked();
    config.blocks = 100'000'000;
    try {
        const Engine engine(model_, config);
        QFAIL("took what is not there");
    } catch (const OutOfMemory& error) {
        QVERIFY(std::string(error.what()).find("100000000 blocks") != std::string::npos);
        QVERIFY(std::string(error.what()).find("MiB") != std::string::npos);
    }
    config.blocks = 0;
    config.cache_bytes = 1;
    QVERIFY_EXCEPTION_THROWN(Engine(model_, config), OutOfMemory);
    // By itself, the engine takes at least one full context.
    config.cache_bytes = 0;
    const Engine engine(model_, config);
    QVERIFY(engine.config().blocks * engine.config().block_size >= 64);
    QCOMPARE(engine.config().cache_bytes,
             size_t(engine.config().blocks) *
                 model_->backend->kv_block_bytes(cache_specs(config, model_->config).front()));
}

void TestEngine::a_seed_is_reported_and_can_be_used_again() {
    Engine engine(model_, checked());
    Request request = greedy({10, 20, 30}, 20);
    request.sampling.temperature = 1.5f;
    request.ignore_eos = true;
    const Answers first = test::run_all(engine, {request, request});
    QVERIFY(first.at({1, 0}).seed != first.at({2, 0}).seed);
    QVERIFY(first.at({1, 0}).tokens != first.at({2, 0}).tokens);
    request.sampling.seed = first.at({2, 0}).seed;
    QCOMPARE(test::run_all(engine, {request}).at({1, 0}).tokens, first.at({2, 0}).tokens);
}

void TestEngine::retune_is_in_force_from_the_next_token() {
    Engine engine(model_, checked());
    Request request = greedy({10}, 9);
    request.sampling = only(30);
    const Answers answers = test::run_all(engine, {request, request}, [&](int step) {
        if (step == 3)
            engine.retune(1, only(40));
        if (step == 5)
            engine.retune(77, only(50)); // there is no such request
    });
    QCOMPARE(answers.at({1, 0}).tokens, (std::vector<TokenId>{30, 30, 30, 40, 40, 40, 40, 40, 40}));
    QCOMPARE(answers.at({2, 0}).tokens, std::vector<TokenId>(9, 30));
    SamplingParams wrong;
    wrong.temperature = -1;
    QVERIFY_EXCEPTION_THROWN(engine.retune(1, wrong), Error);
}

void TestEngine::samples_share_the_prompt() {
    Engine engine(model_, checked());
    Request request = greedy(std::vector<TokenId>(40, 9), 10);
    request.sampling.temperature = 2.0f;
    request.sampling.seed = 5;
    request.samples = 4;
    request.ignore_eos = true;
    std::vector<TokenDelta> deltas;
    test::Collector collector;
    collector.expect(1, request);
    engine.add(1, request);
    const StepReport first = engine.step(deltas);
    QCOMPARE(first.prefill_tokens, 40); // once for all
    QCOMPARE(first.generated_tokens, 4);
    QCOMPARE(first.blocks_held, 3);
    QCOMPARE(first.running, 4);
    const StepReport second = engine.step(deltas);
    QCOMPARE(second.decode_tokens, 4);
    QCOMPARE(second.blocks_held, 2 + 4); // the block that was begun has become four
    while (!engine.idle())
        engine.step(deltas);
    collector.take(deltas);
    collector.check_complete(*model_);
    std::set<std::vector<TokenId>> different;
    for (const auto& [key, answer] : collector.answers()) {
        different.insert(answer.tokens);
        QCOMPARE(answer.tokens.size(), size_t(10));
        QCOMPARE(answer.seed, uint64_t(5));
    }
    QCOMPARE(different.size(), size_t(4));

    // Where they cannot all run at once, they are the same answers.
    EngineConfig narrow = checked();
    narrow.max_sequences = 1;
    Engine one_by_one(model_, narrow);
    const Answers again = test::run_all(one_by_one, {request});
    for (const auto& [key, answer] : collector.answers())
        QVERIFY(again.at(key) == answer);
}

void TestEngine::a_later_turn_starts_from_a_hit() {
    Engine engine(model_, checked());
    Request request = greedy(std::vector<TokenId>(20, 9), 15);
    request.ignore_eos = true;
    const Answered answer = test::run_all(engine, {request}).at({1, 0});
    Request next = request;
    next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end());
    next.prompt.push_back(50);
    next.max_tokens = 3;
    // 34 tokens of the first turn have keys and values: two full blocks.
    QCOMPARE(test::run_all(engine, {next}).at({1, 0}).usage.cached_tokens, 32);
    next.cache_salt = 1;
    QCOMPARE(test::run_all(engine, {next}).at({1, 0}).usage.cached_tokens, 0);
}

void TestEngine::score_gives_the_logits_of_all_positions() {
    test::Random random(test::test_seed());
    std::vector<TokenId> ids;
    for (int i = 0; i < 50; ++i)
        ids.push_back(random.below(model_->config.vocab));
    EngineConfig config = checked();
    config.kv_type = kernels::KvType::f32;
    Engine engine(model_, config);
    const std::vector<float> logits = engine.score(ids);
    const std::vector<double> truth = test::naive_llama(*model_->file, model_->config, ids);
    QCOMPARE(logits.size(), truth.size());
    for (size_t i = 0; i < logits.size(); ++i)
        QVERIFY2(std::abs(logits[i] - truth[i]) < 1e-3,
                 qPrintable(QString("logit %1: %2, %3").arg(i).arg(logits[i]).arg(truth[i])));
    // The budget cuts it into pieces, and that changes nothing.
    for (const int tokens : {1, 7}) {
        config.max_step_tokens = tokens;
        Engine pieces(model_, config);
        QVERIFY(pieces.score(ids) == logits);
        pieces.check_integrity();
    }
    QVERIFY_EXCEPTION_THROWN(engine.score({}), Error);
    QVERIFY_EXCEPTION_THROWN(engine.score({5000}), Error);
    QVERIFY_EXCEPTION_THROWN(engine.score(std::vector<TokenId>(65, 5)), Error);
    QCOMPARE(engine.score(std::vector<TokenId>(64, 5)).size(), size_t(64) * size_t(model_->config.vocab));
}

void TestEngine::reports_add_up() {
    EngineConfig config = checked();
    config.block_size = 4;
    config.blocks = 24;
    config.max_step_tokens = 24;
    config.max_sequences = 6;
    Engine engine(model_, config);
    engine.set_profiling(true);
    test::Random random(test::test_seed());
    int prompt_tokens = 0;
    for (RequestId id = 1; id <= 40; ++id) {
        Request request = greedy({}, random.between(1, 20));
        for (int i = random.between(1, 40); i > 0; --i)
            request.prompt.push_back(random.between(3, 5));
        request.ignore_eos = true;
        prompt_tokens += int(request.prompt.size());
        engine.add(id, request);
    }
    std::vector<TokenDelta> deltas;
    uint64_t number = 0;
    int64_t last_start = -1, forwards = 0;
    int saved = 0, prefill = 0, preemptions = 0, cached_tokens = 0;
    size_t generated = 0;
    while (!engine.idle()) {
        const size_t tokens_before =
            size_t(std::ranges::count_if(deltas, [](const auto& d) { return d.token.has_value(); }));
        const StepReport& r = engine.step(deltas);
        const size_t tokens_now =
            size_t(std::ranges::count_if(deltas, [](const auto& d) { return d.token.has_value(); }));
        QCOMPARE(r.number, ++number);
        QVERIFY(r.start_ns > last_start);
        last_start = r.start_ns;
        const int64_t phases = r.schedule_ns + r.prepare_ns + r.forward_ns + r.sample_ns + r.publish_ns;
        QVERIFY(phases <= r.duration_ns && r.duration_ns - phases < 1'000'000);
        QVERIFY(r.attention_ns + r.matmul_ns + r.norm_ns + r.other_ns <= r.prepare_ns + r.forward_ns);
        forwards += r.matmul_ns > 0;
        int in_rows = 0;
        for (const ReportRow& row : r.rows) {
            in_rows += row.tokens;
            QVERIFY(row.context >= row.tokens && row.context <= 64);
            QVERIFY(row.blocks * 4 >= row.context);
        }
        QCOMPARE(in_rows, r.prefill_tokens + r.decode_tokens + r.recomputed_tokens + r.speculative_tokens);
        QVERIFY(in_rows <= 24 && r.rows.size() <= 6);
        QCOMPARE(r.blocks_free + r.blocks_cached + r.blocks_held, r.blocks_total);
        QCOMPARE(r.blocks_total, 24);
        QCOMPARE(size_t(r.generated_tokens), tokens_now - tokens_before);
        QCOMPARE(r.weight_bytes > 0, !r.rows.empty());
        QCOMPARE(r.cache_bytes > 0, !r.rows.empty());
        int evicted = 0;
        for (const BlockEvent& event : r.block_events) {
            QVERIFY(event.block >= 0 && event.block < 24);
            evicted += event.kind == BlockEventKind::evicted;
        }
        QVERIFY(evicted <= int(r.block_events.size()));
        saved += r.saved_tokens;
        prefill += r.prefill_tokens;
        preemptions += int(r.preemptions.size());
        generated += size_t(r.generated_tokens);
    }
    int reported_preemptions = 0;
    for (const TokenDelta& delta : deltas)
        if (delta.finish != FinishReason::none) {
            reported_preemptions += delta.usage.preemptions;
            cached_tokens += delta.usage.cached_tokens;
            QVERIFY(delta.timings.first_scheduled_ns > 0);
            QVERIFY(delta.timings.first_scheduled_ns <= delta.timings.first_token_ns);
            QVERIFY(delta.timings.first_token_ns <= delta.timings.finished_ns);
        }
    QVERIFY(forwards > 0);
    QVERIFY(preemptions > 0);
    QCOMPARE(preemptions, reported_preemptions);
    QVERIFY(cached_tokens > 0 && saved >= cached_tokens);
    QCOMPARE(prefill + cached_tokens,
             prompt_tokens); // every prompt token is found or computed for the first time
    QVERIFY(generated > 40);
}

void TestEngine::every_open_sample_stands_in_a_queue() {
    test::Random random(test::test_seed());
    for (int round = 0; round < 20; ++round) {
        EngineConfig config = checked();
        config.context = 256;
        config.block_size = 4;
        config.blocks = random.between(64, 120);
        config.max_step_tokens = random.between(4, 64);
        config.max_sequences = random.between(1, 8);
        config.naive = round % 7 == 6;
        Engine engine(model_, config);
        int open = 0;
        const std::vector<Request> requests = test::mixed_requests(random, 16, model_->config.vocab);
        for (size_t i = 0; i < requests.size(); ++i) {
            Request request = requests[i];
            request.samples = random.between(1, 5);
            open += request.samples;
            engine.add(i + 1, request);
        }
        std::vector<TokenDelta> deltas;
        while (!engine.idle()) {
            if (random.chance(0.1))
                engine.cancel(RequestId(random.between(1, 16)));
            const StepReport& report = engine.step(deltas);
            open -= int(std::ranges::count_if(
                deltas, [](const TokenDelta& delta) { return delta.finish != FinishReason::none; }));
            deltas.clear();
            QCOMPARE(report.running + report.waiting + report.swapped, open);
        }
        QCOMPARE(open, 0);
    }
}

void TestEngine::a_context_beyond_the_pool_costs_nothing() {
    EngineConfig config = checked();
    config.context = std::numeric_limits<int>::max();
    config.cache_bytes = 0;
    QVERIFY_EXCEPTION_THROWN(Engine(model_, config), OutOfMemory); // one full context does not fit
    config.blocks = 4;
    Engine engine(model_, config);
    Request request = greedy(std::vector<TokenId>(60, 9), -1);
    request.ignore_eos = true;
    const Answered answer = test::run_all(engine, {request}).at({1, 0});
    QVERIFY(answer.finish == FinishReason::context_full);
    QCOMPARE(answer.tokens.size(), size_t(4));
}

void TestEngine::absurd_budgets_change_nothing_data() {
    QTest::addColumn<int>("backend");
    QTest::newRow("reference") << int(kernels::BackendKind::reference);
    QTest::newRow("automatic") << int(kernels::BackendKind::automatic);
}

void TestEngine::absurd_budgets_change_nothing() {
    QFETCH(int, backend);
    const auto model = test::load_tiny(kernels::BackendKind(backend));
    EngineConfig config = checked();
    config.max_step_tokens = 16;
    config.max_sequences = 3;
    std::vector<Request> requests(6, greedy(std::vector<TokenId>(20, 9), 10));
    for (size_t i = 0; i < requests.size(); ++i)
        requests[i].prompt.back() = TokenId(10 + i);
    Engine undisturbed(model, config), engine(model, config);
    const Answers expected = test::run_all(undisturbed, requests);
    constexpr int most = std::numeric_limits<int>::max();
    const Answers answers = test::run_all(engine, requests, [&](int) {
        for (const auto& [tokens, sequences] :
             {std::pair(most, 3), std::pair(16, most), std::pair(most, most),
              std::pair(1'000'000'000, 1'000'000'000)}) {
            try {
                engine.set_budgets(tokens, sequences, 5);
                QFAIL("took what is not there");
            } catch (const OutOfMemory& error) {
                QVERIFY2(std::string(error.what()).find(" MiB") != std::string::npos, error.what());
            }
            QCOMPARE(engine.config().max_step_tokens, 16);
            QCOMPARE(engine.config().max_sequences, 3);
            QCOMPARE(engine.config().max_chunk, 0);
        }
    });
    for (const auto& [key, answer] : expected)
        QVERIFY2(answers.at(key) == answer, answers.at(key).describe().c_str());
}

void TestEngine::budgets_are_kept() {
    // The size of a step is not given: as large as suits the device, and never less than a token for each
    // sequence that runs.
    EngineConfig unsaid = checked();
    unsaid.max_step_tokens = 0;
    const int efficient_rows = model_->backend->device().efficient_rows;
    QVERIFY(efficient_rows > 64);
    for (const int sequences : {1, 64, efficient_rows + 1}) {
        unsaid.max_sequences = sequences;
        QCOMPARE(Engine(model_, unsaid).config().max_step_tokens, std::max(efficient_rows, sequences));
    }
    Engine engine(model_, checked());
    QVERIFY_EXCEPTION_THROWN(engine.set_budgets(0, 1, 0), Error);
    QVERIFY_EXCEPTION_THROWN(engine.set_budgets(1, 0, 0), Error);
    QVERIFY_EXCEPTION_THROWN(engine.set_budgets(1, 1, -1), Error);
    engine.set_budgets(5, 2, 3);
    QCOMPARE(engine.config().max_step_tokens, 5);
    for (RequestId id = 1; id <= 4; ++id)
        engine.add(id, greedy(std::vector<TokenId>(10, 9), 4));
    std::vector<TokenDelta> deltas;
    while (!engine.idle()) {
        const StepReport& report = engine.step(deltas);
        int tokens = 0;
        for (const ReportRow& row : report.rows) {
            QVERIFY(row.tokens <= 3);
            tokens += row.tokens;
        }
        QVERIFY(tokens <= 5 && report.rows.size() <= 2);
    }
}

QTEST_GUILESS_MAIN(TestEngine)
#include "tst_engine.moc"
