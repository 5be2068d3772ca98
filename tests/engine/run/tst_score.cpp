#include "engine/run/cache_plan.h"
#include "engine/run/score.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/forward.h"

#include <QtTest>

using namespace orrery;

class TestScore : public QObject {
    Q_OBJECT

private slots:
    void gives_the_logits_of_every_position_data();
    void gives_the_logits_of_every_position();
    void takes_free_blocks_alone_and_gives_them_back();
};

namespace {

struct Setup {
    Setup()
        : model(test::load_tiny()),
          decoder(model->weights, *model->backend),
          runner(decoder, *model->backend, specs(), 40),
          store(10, 4, true),
          swap(*model->backend, 0, runner.block_bytes(), 10) {
        runner.reserve(8, 5);
    }

    std::vector<kernels::KvCacheSpec> specs() const {
        EngineConfig config;
        config.block_size = 4;
        config.blocks = 10;
        config.kv_type = kernels::KvType::f32;
        return cache_specs(config, model->config);
    }

    std::vector<float> score(const std::vector<TokenId>& ids, int max_rows) {
        return orrery::score(ids, model->config.vocab, max_rows, runner, store, swap);
    }

    std::shared_ptr<Model> model;
    Decoder decoder;
    ModelRunner runner;
    BlockStore store;
    HostSwap swap;
};

} // namespace

void TestScore::gives_the_logits_of_every_position_data() {
    QTest::addColumn<int>("length");
    QTest::addColumn<int>("max_rows");
    for (const int length : {1, 5, 6, 17, 40})
        for (const int max_rows : {1, 3, 8})
            QTest::addRow("%d tokens, %d rows", length, max_rows) << length << max_rows;
}

void TestScore::gives_the_logits_of_every_position() {
    QFETCH(int, length);
    QFETCH(int, max_rows);
    Setup setup;
    std::vector<TokenId> ids;
    for (int i = 0; i < length; ++i)
        ids.push_back(TokenId((37 * i + 11) % setup.model->config.vocab));
    const std::vector<float> found = setup.score(ids, max_rows);
    test::Forward forward(setup.decoder, *setup.model->backend, 40);
    QVERIFY(found == forward.run(ids));
}

void TestScore::takes_free_blocks_alone_and_gives_them_back() {
    Setup setup;
    const std::vector<TokenId> ids(16, 5);
    BlockTable held;
    QVERIFY(setup.store.extend(held, 24)); // 6 of the 10 blocks
    StepReport report;
    setup.store.record(&report);
    const auto first = setup.score(ids, 8);
    QCOMPARE(setup.store.pool().available(), 4);
    QVERIFY(setup.score(ids, 8) == first);
    QVERIFY(report.block_events.empty());
    try {
        setup.score(std::vector<TokenId>(17, 5), 8);
        QFAIL("took blocks that are held");
    } catch (const Error& error) {
        QVERIFY2(std::string(error.what()).find("needs 5 blocks: 4 are left") != std::string::npos,
                 error.what());
    }
    QCOMPARE(setup.store.pool().available(), 4);
    const BlockTable* tables[] = {&held};
    setup.store.check_integrity(tables);
    setup.store.release(held);
}

QTEST_GUILESS_MAIN(TestScore)
#include "tst_score.moc"
