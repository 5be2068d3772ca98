// Law 1: a request's tokens do not depend on its neighbours, nor on how the work was cut up.
//
// 64 requests of all kinds are run alone, each in an engine of its own. Then they are run in every other way
// that the engine knows, and tokens, log-probabilities and text must be the same to the last bit.
#include "engine/engine.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <iterator>

using namespace orrery;
using test::Answers;

namespace {

/// Each request in an engine of its own, without a prefix cache: nothing to share, nobody to disturb it.
Answers run_alone(const std::shared_ptr<Model>& model, const std::vector<Request>& requests,
                  EngineConfig config) {
    config.prefix_cache = false;
    config.blocks = 0;
    Answers answers;
    for (size_t i = 0; i < requests.size(); ++i) {
        Engine engine(model, config);
        for (auto& [key, answer] : test::run_all(engine, {requests[i]}))
            answers[{i + 1, key.second}] = answer;
    }
    return answers;
}

QString difference(const Answers& expected, const Answers& found) {
    for (const auto& [key, answer] : expected) {
        const auto other = found.find(key);
        if (other == found.end())
            return QString("request %1 sample %2 is missing").arg(key.first).arg(key.second);
        if (!(answer == other->second))
            return QString("request %1 sample %2:\n%3\nalone:\n%4")
                .arg(key.first)
                .arg(key.second)
                .arg(QString::fromStdString(other->second.describe()),
                     QString::fromStdString(answer.describe()));
    }
    return {};
}

int preemptions(const Answers& answers) {
    int sum = 0;
    for (const auto& [key, answer] : answers)
        sum += answer.usage.preemptions;
    return sum;
}

int cached(const Answers& answers) {
    int sum = 0;
    for (const auto& [key, answer] : answers)
        sum += answer.usage.cached_tokens;
    return sum;
}

constexpr int context = 256;

EngineConfig roomy() {
    EngineConfig config;
    config.context = context;
    config.max_step_tokens = 1024;
    config.max_sequences = 32;
    config.cache_bytes = size_t(16) << 20;
    config.swap_bytes = size_t(8) << 20;
    config.check = true;
    return config;
}

/// A pool that holds the longest request and little more.
EngineConfig tiny_pool(PreemptionMode preemption) {
    EngineConfig config = roomy();
    config.block_size = 8;
    config.blocks = 36;
    config.max_sequences = 16;
    config.max_step_tokens = 96;
    config.preemption = preemption;
    return config;
}

} // namespace

#define QSAME(expected, found)                                                                               \
    do {                                                                                                     \
        const QString differs = difference(expected, found);                                                 \
        QVERIFY2(differs.isEmpty(), qPrintable(differs));                                                    \
    } while (false)

class TestSameTokens : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void all_together();
    void in_chunks_data();
    void in_chunks();
    void few_at_a_time();
    void from_the_cache();
    void preempted_data();
    void preempted();
    void after_cancelled_neighbours();
    void budgets_change_on_the_way();
    void without_a_cache();
    void every_kind_of_cache_data();
    void every_kind_of_cache();
    void threads_of_the_cpu_data();
    void threads_of_the_cpu();

private:
    uint64_t seed_ = 0;
    std::shared_ptr<Model> model_;
    std::vector<Request> requests_;
    Answers alone_;
};

void TestSameTokens::initTestCase() {
    seed_ = test::test_seed();
    test::Random random(seed_);
    model_ = test::load_tiny();
    requests_ = test::mixed_requests(random, 64, model_->config.vocab);
    alone_ = run_alone(model_, requests_, roomy());
}

void TestSameTokens::all_together() {
    Engine engine(model_, roomy());
    QSAME(alone_, test::run_all(engine, requests_));
}

void TestSameTokens::in_chunks_data() {
    QTest::addColumn<int>("step_tokens");
    QTest::addColumn<int>("chunk");
    QTest::newRow("one token at a time") << 1 << 0;
    QTest::newRow("chunks of 1") << 64 << 1;
    QTest::newRow("chunks of 7") << 64 << 7;
    QTest::newRow("chunks of 64") << 256 << 64;
    QTest::newRow("a budget of 7") << 7 << 0;
    QTest::newRow("a budget of 64") << 64 << 0;
}

void TestSameTokens::in_chunks() {
    QFETCH(int, step_tokens);
    QFETCH(int, chunk);
    EngineConfig config = roomy();
    config.max_step_tokens = step_tokens;
    config.max_chunk = chunk;
    Engine engine(model_, config);
    QSAME(alone_, test::run_all(engine, requests_));
}

void TestSameTokens::few_at_a_time() {
    for (const int sequences : {1, 3}) {
        EngineConfig config = roomy();
        config.max_sequences = sequences;
        config.policy = SchedulerPolicy::priority;
        Engine engine(model_, config);
        QSAME(alone_, test::run_all(engine, requests_));
    }
}

void TestSameTokens::from_the_cache() {
    for (const int block_size : {1, 5, 16}) {
        EngineConfig config = roomy();
        config.block_size = block_size;
        Engine engine(model_, config);
        const Answers cold = test::run_all(engine, requests_);
        QSAME(alone_, cold);
        const Answers warm = test::run_all(engine, requests_);
        QSAME(alone_, warm);
        QVERIFY(cached(warm) > cached(cold));
        QVERIFY(cached(warm) > 64 * 20);
    }
}

void TestSameTokens::preempted_data() {
    QTest::addColumn<PreemptionMode>("mode");
    QTest::addColumn<bool>("prefix_cache");
    QTest::addColumn<int>("chunk");
    QTest::newRow("recompute") << PreemptionMode::recompute << true << 0;
    QTest::newRow("recompute without prefixes") << PreemptionMode::recompute << false << 0;
    QTest::newRow("recompute in chunks") << PreemptionMode::recompute << true << 7;
    QTest::newRow("swap") << PreemptionMode::swap << true << 0;
    QTest::newRow("swap without prefixes") << PreemptionMode::swap << false << 0;
    QTest::newRow("the cheaper") << PreemptionMode::cheapest << true << 7;
}

void TestSameTokens::preempted() {
    QFETCH(PreemptionMode, mode);
    QFETCH(bool, prefix_cache);
    QFETCH(int, chunk);
    EngineConfig config = tiny_pool(mode);
    config.prefix_cache = prefix_cache;
    config.max_chunk = chunk;
    // Whether somebody has to give way is up to the requests: others are drawn until it happens.
    int preempted = 0;
    for (uint64_t round = 0; preempted == 0 && round < 16; ++round) {
        test::Random random(seed_ + 100 + round);
        const std::vector<Request> others =
            round == 0 ? requests_ : test::mixed_requests(random, 64, model_->config.vocab);
        Engine engine(model_, config);
        const Answers answers = test::run_all(engine, others);
        preempted = preemptions(answers);
        QSAME(round == 0 ? alone_ : run_alone(model_, others, roomy()), answers);
    }
    QVERIFY(preempted > 0);
}

void TestSameTokens::after_cancelled_neighbours() {
    // Neighbours come, are cancelled at any time, and leave holes in tables and cache.
    test::Random random(seed_ + 1);
    for (const bool tiny : {false, true}) {
        std::vector<Request> both = requests_;
        for (const Request& request : test::mixed_requests(random, 64, model_->config.vocab))
            both.push_back(request);
        Engine engine(model_, tiny ? tiny_pool(PreemptionMode::swap) : roomy());
        const Answers answers = test::run_all(engine, both, [&](int) {
            if (random.chance(0.5))
                engine.cancel(RequestId(random.between(65, 128)));
        });
        QSAME(alone_, answers);
    }
}

void TestSameTokens::budgets_change_on_the_way() {
    test::Random random(seed_ + 2);
    Engine engine(model_, tiny_pool(PreemptionMode::cheapest));
    const Answers answers = test::run_all(engine, requests_, [&](int) {
        if (random.chance(0.2))
            engine.set_budgets(random.between(1, 200), random.between(1, 40), random.below(30));
    });
    QSAME(alone_, answers);
}

void TestSameTokens::without_a_cache() {
    // The loop that everything else optimises: every pass computes every position again.
    EngineConfig config = roomy();
    config.naive = true;
    Engine engine(model_, config);
    QSAME(alone_, test::run_all(engine, requests_));
}

void TestSameTokens::every_kind_of_cache_data() {
    QTest::addColumn<kernels::KvType>("type");
    QTest::newRow("f32") << kernels::KvType::f32;
    QTest::newRow("f16") << kernels::KvType::f16;
    QTest::newRow("int8") << kernels::KvType::int8;
    QTest::newRow("int4") << kernels::KvType::int4;
}

void TestSameTokens::every_kind_of_cache() {
    QFETCH(kernels::KvType, type);
    const std::vector<Request> some(requests_.begin(), requests_.begin() + 24);
    EngineConfig config = roomy();
    config.kv_type = type;
    const Answers alone = run_alone(model_, some, config);
    Engine engine(model_, config);
    QSAME(alone, test::run_all(engine, some));
    QSAME(alone, test::run_all(engine, some));
    for (const PreemptionMode mode : {PreemptionMode::recompute, PreemptionMode::swap}) {
        EngineConfig tight = tiny_pool(mode);
        tight.kv_type = type;
        tight.max_chunk = 7;
        Engine squeezed(model_, tight);
        QSAME(alone, test::run_all(squeezed, some));
    }
}

void TestSameTokens::threads_of_the_cpu_data() {
    QTest::addColumn<kernels::TensorType>("weights");
    QTest::addColumn<kernels::KvType>("type");
    using kernels::KvType, kernels::TensorType;
    QTest::newRow("F32, f32") << TensorType::F32 << KvType::f32;
    QTest::newRow("BF16, f16") << TensorType::BF16 << KvType::f16;
    QTest::newRow("Q8_0, int8") << TensorType::Q8_0 << KvType::int8;
    QTest::newRow("Q4_1, int4") << TensorType::Q4_1 << KvType::int4;
    QTest::newRow("Q4_0, f16") << TensorType::Q4_0 << KvType::f16;
}

void TestSameTokens::threads_of_the_cpu() {
    QFETCH(kernels::TensorType, weights);
    QFETCH(kernels::KvType, type);
    const auto with = [&](EngineConfig config) {
        config.kv_type = type;
        // Blocks of whole tiles throughout: the CPU multiplies int8 and int4 keys in another order where it
        // has to decode them first, so the size of a block is part of what makes tokens equal there.
        config.blocks = config.blocks * config.block_size / 16;
        config.block_size = 16;
        return config;
    };
    Answers first;
    for (const int threads : {1, 2, 3}) {
        const auto model = test::load_tiny(kernels::BackendKind::cpu, threads, {.weights = weights});
        if (threads == 1) {
            first = run_alone(model, requests_, with(roomy()));
            EngineConfig naive = with(roomy());
            naive.naive = true;
            Engine engine(model, naive);
            QSAME(first, test::run_all(engine, requests_));
        }
        Engine engine(model, with(roomy()));
        QSAME(first, test::run_all(engine, requests_));
        QSAME(first, test::run_all(engine, requests_)); // from the cache
        Engine squeezed(model, with(tiny_pool(PreemptionMode::swap)));
        QSAME(first, test::run_all(squeezed, requests_));
        EngineConfig chunks = with(tiny_pool(PreemptionMode::recompute));
        chunks.max_chunk = 7;
        Engine chunked(model, chunks);
        QSAME(first, test::run_all(chunked, requests_));
    }
}

QTEST_GUILESS_MAIN(TestSameTokens)
#include "tst_same_tokens.moc"
