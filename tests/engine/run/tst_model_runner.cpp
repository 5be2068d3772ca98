// Plans, carried out: the logits of a part are those of its tokens alone in a plain pass, wherever its blocks
// lie and whatever moved them.
#include "engine/run/cache_plan.h"
#include "engine/run/model_runner.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/forward.h"
#include "tests/support/gguf_writer.h"

#include <QtTest>

using namespace orrery;

namespace {

constexpr int block_size = 4;
constexpr int max_positions = 64;

std::shared_ptr<Model> model_of(test::GgufWriter writer) {
    static std::vector<std::vector<std::byte>> contents; // has to outlive the model
    contents.push_back(writer.bytes());
    auto model = std::make_shared<Model>();
    model->file = GgufFile::parse(contents.back(), "model.gguf");
    model->config = read_config(*model->file);
    model->backend = kernels::make_backend(kernels::BackendKind::reference, 1);
    model->weights = std::make_shared<ModelWeights>(model->file, model->config, *model->backend);
    return model;
}

/// A model whose layers have keys and values of two shapes, and so two caches.
test::GgufWriter two_shapes() {
    test::GgufWriter writer = test::tiny_model_writer();
    writer.drop("llama.attention.head_count_kv").u32s("llama.attention.head_count_kv", {2, 4});
    std::vector<float> weights(64 * 64);
    for (size_t i = 0; i < weights.size(); ++i)
        weights[i] = std::sin(float(i)) / 8;
    for (const std::string name : {"blk.1.attn_k.weight", "blk.1.attn_v.weight"})
        writer.drop_tensor(name).tensor(name, {64, 64}, weights);
    return writer;
}

struct Setup {
    explicit Setup(std::shared_ptr<Model> its_model, int blocks = 12)
        : model(std::move(its_model)),
          decoder(model->weights, *model->backend),
          runner(decoder, *model->backend, specs(blocks), max_positions),
          swap(*model->backend, 20 * runner.block_bytes(), runner.block_bytes(), blocks) {
        runner.reserve(32, 32);
    }

    std::vector<kernels::KvCacheSpec> specs(int blocks) const {
        EngineConfig config;
        config.block_size = block_size;
        config.blocks = blocks;
        config.kv_type = kernels::KvType::f32;
        return cache_specs(config, model->config);
    }

    std::vector<float> run(const StepPlan& plan, bool all_logits = false) {
        runner.prepare(plan, swap, all_logits);
        runner.run();
        std::vector<float> logits(runner.outputs() * size_t(model->config.vocab));
        runner.read_logits(logits);
        return logits;
    }

    /// Of each token, computed in a plain pass.
    std::vector<float> expected(const std::vector<TokenId>& tokens) {
        test::Forward forward(decoder, *model->backend, 32);
        return forward.run(tokens);
    }
    std::vector<float> expected_last(const std::vector<TokenId>& tokens) {
        test::Forward forward(decoder, *model->backend, 32);
        return forward.run(tokens, test::Forward::Outputs::last);
    }

    std::shared_ptr<Model> model;
    Decoder decoder;
    ModelRunner runner;
    HostSwap swap;
};

Sequence sequence_of(const std::vector<TokenId>& tokens, const std::vector<int32_t>& blocks) {
    Sequence sequence;
    sequence.tokens = tokens;
    sequence.table.blocks = blocks;
    return sequence;
}

StepPlan plan_of(std::vector<StepPlan::Part> parts) {
    StepPlan plan;
    plan.parts = std::move(parts);
    return plan;
}

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace

class TestModelRunner : public QObject {
    Q_OBJECT

private slots:
    void parts_of_several_sequences_share_a_pass();
    void a_part_that_does_not_catch_up_has_no_logits();
    void copies_and_swaps_carry_all_caches_data();
    void copies_and_swaps_carry_all_caches();
    void a_swap_has_a_price();
    void more_room_changes_nothing();
};

void TestModelRunner::parts_of_several_sequences_share_a_pass() {
    Setup setup(test::load_tiny());
    Sequence a = sequence_of({5, 6, 7, 8, 9, 10}, {3, 0}), b = sequence_of({50, 51, 52}, {7});
    QVERIFY(setup.run(plan_of({{&a, 0, 6}, {&b, 0, 3}})) ==
            joined(setup.expected_last(a.tokens), setup.expected_last(b.tokens)));
    a.tokens.push_back(11);
    b.tokens.insert(b.tokens.end(), {53, 54, 55});
    b.table.blocks.push_back(5);
    QVERIFY(setup.run(plan_of({{&b, 3, 3}, {&a, 6, 1}})) ==
            joined(setup.expected_last(b.tokens), setup.expected_last(a.tokens)));
    QVERIFY(setup.run(plan_of({{&b, 0, 6}}), true) == setup.expected(b.tokens));
}

void TestModelRunner::a_part_that_does_not_catch_up_has_no_logits() {
    Setup setup(test::load_tiny());
    Sequence a = sequence_of({5, 6, 7, 8, 9, 10}, {2, 9}), b = sequence_of({50, 51}, {1});
    QVERIFY(setup.run(plan_of({{&a, 0, 4}})).empty());
    QVERIFY(setup.run(plan_of({{&b, 0, 2}, {&a, 4, 1}})) == setup.expected_last(b.tokens));
    QVERIFY(setup.run(plan_of({{&a, 5, 1}})) == setup.expected_last(a.tokens));
}

void TestModelRunner::copies_and_swaps_carry_all_caches_data() {
    QTest::addColumn<bool>("two");
    QTest::newRow("one cache") << false;
    QTest::newRow("two caches") << true;
}

void TestModelRunner::copies_and_swaps_carry_all_caches() {
    QFETCH(bool, two);
    Setup setup(two ? model_of(two_shapes()) : test::load_tiny());
    QCOMPARE(setup.model->config.caches.size(), size_t(two ? 2 : 1));
    Sequence a = sequence_of({5, 6, 7, 8, 9, 10, 11, 12}, {2, 9}), b = sequence_of({50, 51, 52, 53}, {4});
    const auto expected_a = setup.expected_last(a.tokens);
    a.tokens.pop_back();
    setup.run(plan_of({{&a, 0, 7}, {&b, 0, 4}}));
    a.tokens.push_back(12);

    // Both blocks leave, other content takes their place, and they come back elsewhere.
    std::vector<int32_t> host_slots;
    QVERIFY(setup.swap.hold(a.table.blocks, 1, host_slots));
    StepPlan away = plan_of({{&b, 0, 4}});
    away.swap_outs = {{2, host_slots[0]}, {9, host_slots[1]}};
    b.table.blocks = {2};
    QVERIFY(setup.run(away) == setup.expected_last(b.tokens));
    b.table.blocks = {9};
    setup.run(plan_of({{&b, 0, 4}}));
    a.table.blocks = {11, 0};
    StepPlan back = plan_of({{&a, 7, 1}});
    back.swap_ins = {{11, host_slots[0]}, {0, host_slots[1]}};
    QVERIFY(setup.run(back) == expected_a);

    // A copy of one of them.
    Sequence c = sequence_of(a.tokens, {11, 6});
    StepPlan copied = plan_of({{&c, 7, 1}});
    copied.copies = {{0, 6}};
    QVERIFY(setup.run(copied) == expected_a);
}

void TestModelRunner::a_swap_has_a_price() {
    const Setup setup(test::load_tiny());
    QVERIFY(setup.runner.ns_per_swapped_block() > 0);
    QCOMPARE(setup.runner.block_bytes(), size_t{block_size} * 2 * 2 * (16 + 16) * sizeof(float));
}

void TestModelRunner::more_room_changes_nothing() {
    Setup setup(test::load_tiny());
    Sequence a = sequence_of({5, 6, 7, 8, 9, 10}, {2, 9});
    const auto before = setup.run(plan_of({{&a, 0, 6}}));
    setup.runner.reserve(100, 7);
    QCOMPARE(setup.runner.max_rows(), 100);
    QCOMPARE(setup.runner.max_outputs(), 32); // never smaller
    QVERIFY(setup.run(plan_of({{&a, 0, 6}})) == before);
    QVERIFY_EXCEPTION_THROWN(setup.runner.reserve(8, 1 << 30), OutOfMemory);
    QCOMPARE(setup.runner.max_outputs(), 32);
    QVERIFY(setup.run(plan_of({{&a, 0, 6}})) == before);
}

QTEST_GUILESS_MAIN(TestModelRunner)
#include "tst_model_runner.moc"
