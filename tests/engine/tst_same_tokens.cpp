// Law 1: a request's tokens do not depend on its neighbours, nor on how the work was cut up.
//
// 64 requests of all kinds are run alone, each in an engine of its own. Then they are run in every other way
// that the engine knows, and tokens, log-probabilities and text must be the same to the last bit. This is a
// tiny random model on every back end and with every kind of weights; tests/soak/same_tokens does the same
// with a real one.
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/golden_model.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/random.h"
#include "tests/support/same_tokens.h"
#include "tests/support/test_data.h"

#include <QtTest>

using namespace orrery;
using test::Answers;
using test::Way;

namespace {

EngineConfig roomy() {
    EngineConfig config;
    config.context = 256;
    config.max_step_tokens = 1024;
    config.max_sequences = 32;
    config.cache_bytes = size_t(16) << 20;
    config.swap_bytes = size_t(8) << 20;
    config.check = true;
    return config;
}

/// A pool that holds the longest request and little more.
EngineConfig tiny(int block_size) {
    EngineConfig config = roomy();
    config.block_size = block_size;
    config.blocks = 288 / block_size;
    config.max_sequences = 16;
    config.max_step_tokens = 96;
    return config;
}

QString difference(const test::SameTokens& exam, const Way& way, const Answers& alone, uint64_t seed) {
    test::Random random(seed);
    return QString::fromStdString(run_way(exam, way, alone, random).difference);
}

} // namespace

#define QSAME(exam, way, alone)                                                                              \
    do {                                                                                                     \
        const QString differs = difference(exam, way, alone, seed_);                                         \
        QVERIFY2(differs.isEmpty(), qPrintable(QString::fromStdString((way).name) + ": " + differs));        \
    } while (false)

class TestSameTokens : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void every_way_gives_the_same_tokens_data();
    void every_way_gives_the_same_tokens();
    void blocks_of_every_size_give_the_same_tokens_data();
    void blocks_of_every_size_give_the_same_tokens();
    void every_kind_of_cache_gives_the_same_tokens_data();
    void every_kind_of_cache_gives_the_same_tokens();
    void every_trait_of_a_model_gives_the_same_tokens_data();
    void every_trait_of_a_model_gives_the_same_tokens();
    void any_number_of_threads_gives_the_same_tokens_data();
    void any_number_of_threads_gives_the_same_tokens();

private:
    test::SameTokens exam(uint64_t seed, int requests) const;

    uint64_t seed_ = 0;
    std::shared_ptr<Model> model_;
    test::SameTokens exam_;
    Answers alone_;
};

test::SameTokens TestSameTokens::exam(uint64_t seed, int requests) const {
    test::Random random(seed);
    test::SameTokens exam;
    exam.model = model_;
    exam.requests = test::mixed_requests(random, requests, model_->config.vocab);
    exam.neighbours = test::mixed_requests(random, requests, model_->config.vocab);
    exam.roomy = roomy();
    exam.tiny = tiny(8);
    return exam;
}

void TestSameTokens::initTestCase() {
    seed_ = test::test_seed();
    model_ = test::load_tiny();
    exam_ = exam(seed_, 64);
    alone_ = run_alone(exam_);
}

void TestSameTokens::every_way_gives_the_same_tokens_data() {
    QTest::addColumn<QString>("name");
    for (const Way& way : test::all_ways())
        QTest::newRow(way.name.c_str()) << QString::fromStdString(way.name);
}

void TestSameTokens::every_way_gives_the_same_tokens() {
    QFETCH(QString, name);
    const Way& way = test::way_named(name.toStdString());
    // Whether what makes the way worth going happens (a preemption, say) depends on the requests: others are
    // drawn until it does.
    bool happened = false;
    for (uint64_t round = 0; !happened && round < 16; ++round) {
        const test::SameTokens fresh = round == 0 ? exam_ : exam(seed_ + 100 + round, 64);
        const Answers alone = round == 0 ? alone_ : run_alone(fresh);
        test::Random random(seed_ + round);
        const test::Course course = run_way(fresh, way, alone, random);
        QVERIFY2(course.difference.empty(), course.difference.c_str());
        happened = way.must == test::Happening::nothing || course.count(way.must) > 0;
    }
    QVERIFY2(happened, happening_name(way.must));
}

void TestSameTokens::blocks_of_every_size_give_the_same_tokens_data() {
    QTest::addColumn<int>("block_size");
    QTest::newRow("1") << 1;
    QTest::newRow("5") << 5;
    QTest::newRow("16") << 16;
    QTest::newRow("100") << 100;
}

void TestSameTokens::blocks_of_every_size_give_the_same_tokens() {
    QFETCH(int, block_size);
    test::SameTokens other = exam_;
    other.roomy.block_size = block_size;
    test::Random random(seed_);
    const test::Course course = run_way(other, test::way_named("again from the cache"), alone_, random);
    QVERIFY2(course.difference.empty(), course.difference.c_str());
    QVERIFY(course.count(test::Happening::every_block) > 0);
}

void TestSameTokens::every_kind_of_cache_gives_the_same_tokens_data() {
    QTest::addColumn<kernels::KvType>("type");
    QTest::newRow("f32") << kernels::KvType::f32;
    QTest::newRow("f16") << kernels::KvType::f16;
    QTest::newRow("int8") << kernels::KvType::int8;
    QTest::newRow("int4") << kernels::KvType::int4;
}

void TestSameTokens::every_kind_of_cache_gives_the_same_tokens() {
    QFETCH(kernels::KvType, type);
    test::SameTokens some = exam(seed_, 24);
    some.roomy.kv_type = some.tiny.kv_type = type;
    const Answers alone = run_alone(some);
    for (const Way& way : test::few_ways())
        QSAME(some, way, alone);
}

void TestSameTokens::every_trait_of_a_model_gives_the_same_tokens_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<kernels::BackendKind>("backend");
    for (const char* name : {"gemma2", "gemma3", "gpt2", "olmoe"})
        QTest::addRow("%s, reference", name) << name << kernels::BackendKind::reference;
    QTest::newRow("gpt2, cpu") << "gpt2" << kernels::BackendKind::cpu;
}

/// A window that is shorter than most of the requests, and layers without one; a soft cap; learned positions;
/// experts.
void TestSameTokens::every_trait_of_a_model_gives_the_same_tokens() {
    ORRERY_NEED_TEST_DATA();
    QFETCH(QString, name);
    QFETCH(kernels::BackendKind, backend);
    test::SameTokens some = exam(seed_, 24);
    LoadOptions options;
    options.backend = backend;
    options.threads = 2;
    some.model = load_model(test::golden_model(name.toStdString()), options);
    const int vocab = some.model->config.vocab;
    test::Random random(seed_);
    some.requests = test::mixed_requests(random, 24, vocab);
    some.neighbours = test::mixed_requests(random, 24, vocab);
    some.tiny = tiny(16);
    const Answers alone = run_alone(some);
    QSAME(some, test::way_named("without a cache"), alone);
    QSAME(some, test::way_named("again from the cache"), alone);
    for (const Way& way : test::few_ways())
        QSAME(some, way, alone);
}

void TestSameTokens::any_number_of_threads_gives_the_same_tokens_data() {
    QTest::addColumn<kernels::TensorType>("weights");
    QTest::addColumn<kernels::KvType>("type");
    using kernels::KvType, kernels::TensorType;
    QTest::newRow("F32, f32") << TensorType::F32 << KvType::f32;
    QTest::newRow("BF16, f16") << TensorType::BF16 << KvType::f16;
    QTest::newRow("Q8_0, int8") << TensorType::Q8_0 << KvType::int8;
    QTest::newRow("Q4_1, int4") << TensorType::Q4_1 << KvType::int4;
    QTest::newRow("Q4_0, f16") << TensorType::Q4_0 << KvType::f16;
}

void TestSameTokens::any_number_of_threads_gives_the_same_tokens() {
    QFETCH(kernels::TensorType, weights);
    QFETCH(kernels::KvType, type);
    test::SameTokens on_cpu = exam_;
    // Blocks of whole tiles throughout: the CPU multiplies int8 and int4 keys in another order where it has
    // to decode them first, so the size of a block is part of what makes tokens equal there.
    on_cpu.tiny = tiny(16);
    on_cpu.roomy.kv_type = on_cpu.tiny.kv_type = type;
    Answers alone;
    for (const int threads : {1, 2, 3}) {
        on_cpu.model = test::load_tiny(kernels::BackendKind::cpu, threads, {.weights = weights});
        if (threads == 1) {
            alone = run_alone(on_cpu);
            QSAME(on_cpu, test::way_named("without a cache"), alone);
        }
        for (const Way& way : test::few_ways())
            QSAME(on_cpu, way, alone);
    }
}

QTEST_GUILESS_MAIN(TestSameTokens)
#include "tst_same_tokens.moc"
