#include "engine/platform/system.h"
#include "engine/run/cache_plan.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/golden_model.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <functional>

using namespace orrery;

namespace {

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Bytes of a token's keys and values in float16: two layers of two heads of 16 elements.
constexpr size_t token_bytes = size_t{2} * 2 * (16 + 16) * 2;

} // namespace

class TestCachePlan : public QObject {
    Q_OBJECT

private slots:
    void every_zero_is_replaced();
    void what_is_asked_for_is_kept();
    void values_that_make_no_sense_are_refused_data();
    void values_that_make_no_sense_are_refused();
    void a_trained_context_that_does_not_fit_becomes_the_longest_that_fits();
    void a_context_that_was_asked_for_and_does_not_fit_is_refused();
    void the_context_in_force_fits_the_blocks();
    void learned_positions_bound_the_context();
    void caches_have_the_shapes_of_the_layers();

private:
    std::shared_ptr<Model> model_ = test::load_tiny();
};

void TestCachePlan::every_zero_is_replaced() {
    const EngineConfig config = plan_cache({}, *model_);
    QCOMPARE(config.context, 512);
    // 64 contexts of 512 tokens are far less than a quarter of any machine's memory.
    QCOMPARE(config.blocks, 64 * 512 / 16);
    QCOMPARE(config.cache_bytes, size_t(config.blocks) * 16 * token_bytes);
    QCOMPARE(config.max_step_tokens, std::max(model_->backend->device().efficient_rows, 64));
}

void TestCachePlan::what_is_asked_for_is_kept() {
    EngineConfig asked;
    asked.context = 100;
    asked.block_size = 7;
    asked.max_step_tokens = 9;
    asked.cache_bytes = 20 * 7 * token_bytes + 1;
    EngineConfig config = plan_cache(asked, *model_);
    QCOMPARE(config.context, 100);
    QCOMPARE(config.blocks, 20);
    QCOMPARE(config.cache_bytes, 20 * 7 * token_bytes);
    QCOMPARE(config.max_step_tokens, 9);
    asked.blocks = 3;
    config = plan_cache(asked, *model_);
    QCOMPARE(config.blocks, 3);
    QCOMPARE(config.context, 100);
    asked.naive = true;
    QVERIFY(!plan_cache(asked, *model_).prefix_cache);
}

void TestCachePlan::values_that_make_no_sense_are_refused_data() {
    QTest::addColumn<QString>("field");
    QTest::addColumn<int>("value");
    QTest::addColumn<QString>("sentence");
    const auto row = [](const char* field, int value, const char* rule) {
        QTest::addRow("%s = %d", field, value)
            << QString(field) << value << QString("%1 is %2: it must be %3.").arg(field).arg(value).arg(rule);
    };
    row("context", -1, "0 (the model's own) or larger");
    row("context", 1, "at least 2: a token to read and one to write");
    row("block_size", 0, "between 1 and 1024");
    row("block_size", 1025, "between 1 and 1024");
    row("blocks", -1, "0 (as many as fit) or larger");
    row("blocks", 134217728, "less: its tokens pass 2,147,483,647");
    row("max_step_tokens", -1, "0 (what suits the device) or larger");
    row("max_sequences", 0, "at least 1");
    row("max_chunk", -1, "0 (the budget) or larger");
}

void TestCachePlan::values_that_make_no_sense_are_refused() {
    QFETCH(QString, field);
    QFETCH(int, value);
    QFETCH(QString, sentence);
    EngineConfig asked;
    const std::map<QString, int EngineConfig::*> fields = {
        {"context", &EngineConfig::context},
        {"block_size", &EngineConfig::block_size},
        {"blocks", &EngineConfig::blocks},
        {"max_step_tokens", &EngineConfig::max_step_tokens},
        {"max_sequences", &EngineConfig::max_sequences},
        {"max_chunk", &EngineConfig::max_chunk}};
    asked.*fields.at(field) = value;
    QCOMPARE(QString::fromStdString(error_of([&] { plan_cache(asked, *model_); })), sentence);
}

// Whatever a file claims that its model was trained for, the model opens.
void TestCachePlan::a_trained_context_that_does_not_fit_becomes_the_longest_that_fits() {
    if (platform::memory_info().available_bytes == 0)
        QSKIP("this system does not say how much memory is available");
    const auto model =
        test::load_tiny(kernels::BackendKind::reference, 1, {.context_length = 1 << 30}); // 256 GiB
    for (const int block_size : {1, 16, 100}) {
        EngineConfig asked;
        asked.block_size = block_size;
        const EngineConfig config = plan_cache(asked, *model);
        const size_t available = platform::memory_info().available_bytes;
        if (config.context == 1 << 30)
            QSKIP("this machine has room for 256 GiB");
        QCOMPARE(config.context, config.blocks * block_size);
        QVERIFY(config.cache_bytes <= available);
        QVERIFY2(config.cache_bytes >= available / 2, "longer ones would fit");
    }
    Engine engine(model, {});
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 3;
    request.ignore_eos = true;
    QCOMPARE(test::run_all(engine, {request}).at({1, 0}).tokens.size(), size_t(3));
    QVERIFY(engine.config().context > 512 && engine.config().context < 1 << 30);
}

void TestCachePlan::a_context_that_was_asked_for_and_does_not_fit_is_refused() {
    if (platform::memory_info().available_bytes == 0)
        QSKIP("this system does not say how much memory is available");
    EngineConfig asked;
    asked.context = 1 << 30;
    const std::string error = error_of([&] { plan_cache(asked, *model_); });
    QVERIFY2(error.find("67108864 blocks of 16 tokens need 262144 MiB") != std::string::npos, error.c_str());
    QVERIFY2(error.find("A context of ") != std::string::npos, error.c_str());
}

void TestCachePlan::the_context_in_force_fits_the_blocks() {
    EngineConfig asked;
    asked.blocks = 5;
    QCOMPARE(plan_cache(asked, *model_).context, 80);
    asked.blocks = 0;
    asked.cache_bytes = 3 * 16 * token_bytes;
    QCOMPARE(plan_cache(asked, *model_).context, 48);
}

void TestCachePlan::learned_positions_bound_the_context() {
    ORRERY_NEED_TEST_DATA();
    const auto model = load_model(test::golden_model("gpt2"), {});
    EngineConfig asked;
    QCOMPARE(plan_cache(asked, *model).context, 512);
    asked.context = 513;
    QVERIFY(error_of([&] { plan_cache(asked, *model); }).find("context is 513: it must be at most 512") !=
            std::string::npos);
}

void TestCachePlan::caches_have_the_shapes_of_the_layers() {
    ModelConfig model;
    model.caches = {{5, 2, 64, 48}, {3, 1, 128, 128}};
    EngineConfig config;
    config.block_size = 8;
    config.blocks = 77;
    config.kv_type = kernels::KvType::int8;
    const auto specs = cache_specs(config, model);
    QCOMPARE(specs.size(), size_t(2));
    for (size_t i = 0; i < 2; ++i) {
        QCOMPARE(specs[i].layers, model.caches[i].layers);
        QCOMPARE(specs[i].kv_heads, model.caches[i].kv_heads);
        QCOMPARE(specs[i].key_length, model.caches[i].key_length);
        QCOMPARE(specs[i].value_length, model.caches[i].value_length);
        QCOMPARE(specs[i].block_size, 8);
        QCOMPARE(specs[i].blocks, 77);
        QCOMPARE(specs[i].type, kernels::KvType::int8);
    }
}

QTEST_GUILESS_MAIN(TestCachePlan)
#include "tst_cache_plan.moc"
