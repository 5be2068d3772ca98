// Engines that share a model: its weights are loaded once and never change, all else is an engine's own. Two
// threads may run two of them at the same time (the thread sanitizer watches).
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/mixed_requests.h"
#include "tests/support/random.h"

#include <QtTest>

#include <thread>

using namespace orrery;
using test::Answers;

namespace {

EngineConfig config() {
    EngineConfig config;
    config.context = 256;
    config.cache_bytes = size_t(2) << 20;
    config.max_sequences = 8;
    config.check = true;
    return config;
}

} // namespace

class TestSharedModel : public QObject {
    Q_OBJECT

private slots:
    void engines_on_two_threads_answer_as_one_alone_data();
    void engines_on_two_threads_answer_as_one_alone();
    void an_engine_outlives_another();
};

void TestSharedModel::engines_on_two_threads_answer_as_one_alone_data() {
    QTest::addColumn<kernels::BackendKind>("backend");
    QTest::newRow("reference") << kernels::BackendKind::reference;
    QTest::newRow("cpu") << kernels::BackendKind::cpu;
}

void TestSharedModel::engines_on_two_threads_answer_as_one_alone() {
    QFETCH(kernels::BackendKind, backend);
    const std::shared_ptr<Model> model = test::load_tiny(backend, 2, {.window = 40, .biases = true});
    test::Random random(test::test_seed());
    std::vector<std::vector<Request>> requests;
    std::vector<Answers> expected, found(2);
    for (int i = 0; i < 2; ++i) {
        requests.push_back(test::mixed_requests(random, 12, model->config.vocab));
        Engine alone(model, config());
        expected.push_back(test::run_all(alone, requests.back()));
    }
    {
        Engine first(model, config()), second(model, config());
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < 2; ++i)
            threads.emplace_back([&, i] { found[i] = test::run_all(i == 0 ? first : second, requests[i]); });
    }
    for (size_t i = 0; i < 2; ++i)
        for (const auto& [key, answer] : expected[i]) {
            const std::string differs = test::difference(answer, found[i].at(key));
            QVERIFY2(differs.empty(), differs.c_str());
        }
}

void TestSharedModel::an_engine_outlives_another() {
    std::shared_ptr<Model> model = test::load_tiny();
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 8;
    request.sampling.temperature = 0;
    auto first = std::make_unique<Engine>(model, config());
    Engine second(std::move(model), config()); // the engines hold the model
    const Answers expected = test::run_all(*first, {request});
    first.reset();
    const Answers found = test::run_all(second, {request});
    QVERIFY(found.at({1, 0}) == expected.at({1, 0}));
}

QTEST_GUILESS_MAIN(TestSharedModel)
#include "tst_shared_model.moc"
