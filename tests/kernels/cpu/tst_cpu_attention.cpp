// Rotation, storing and attention of the CPU back end against the reference, and against themselves: law 1,
// bit for bit.
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cpu/attention_case.h"

#include <QtTest>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::kernels::test;
using orrery::test::to_device;

namespace {

void add_kv_types() {
    QTest::addColumn<KvType>("type");
    QTest::addRow("f32") << KvType::f32;
    QTest::addRow("f16") << KvType::f16;
    QTest::addRow("int8") << KvType::int8;
    QTest::addRow("int4") << KvType::int4;
}

} // namespace

class CpuAttentionTest : public QObject {
    Q_OBJECT

private slots:
    void init() {
        if (isas().empty())
            QSKIP("this processor has none of the code paths");
        const auto seed = std::random_device{}();
        qInfo("seed %u", seed);
        random_.seed(seed);
    }

    void isCloseToTheReference_data() { add_kv_types(); }
    void isCloseToTheReference();
    void doesNotDependOnTheBatch_data() { add_kv_types(); }
    void doesNotDependOnTheBatch();
    void infiniteValuesOfLaterTokensDoNotLeakBack_data();
    void infiniteValuesOfLaterTokensDoNotLeakBack();
    void wrongInputIsRefused();

private:
    std::mt19937 random_;
};

void CpuAttentionTest::isCloseToTheReference() {
    QFETCH(KvType, type);
    ReferenceBackend reference;
    for (int round = 0; round < 16; ++round) {
        const int positions = number(1, 60, random_) + (round % 3 == 0 ? 250 : 0);
        const AttentionCase c = random_attention(type, positions, random_, round % 4 != 0);
        const auto plan = coin(random_) ? c.whole() : c.pieces(random_);
        const auto want = c.run(reference, plan);
        for (const char* isa : isas()) {
            const auto device = make_cpu(2, isa);
            const auto got = c.run(*device, plan);
            // Norms and rotations differ in the last bit, which tips the rounding of an element now and then.
            const double bound = type == KvType::f32 ? 1e-5 : type == KvType::int4 ? 1e-2 : 2e-3;
            for (size_t s = 0; s < want.size(); ++s) {
                const double error = relative_error(got[s], want[s]);
                QVERIFY2(
                    error <= bound,
                    qPrintable(
                        QString("%1: relative error %2, %3").arg(isa).arg(error).arg(c.shape().c_str())));
            }
        }
    }
}

void CpuAttentionTest::doesNotDependOnTheBatch() {
    QFETCH(KvType, type);
    for (int round = 0; round < 6; ++round) {
        const int positions = round % 4 == 0 ? 600 : number(1, 300, random_);
        const AttentionCase c = random_attention(type, positions, random_, round > 0);
        std::vector<std::vector<float>> expected;
        for (const char* isa : isas())
            for (const int threads : {1, 2, 3}) {
                const auto device = make_cpu(threads, isa);
                const auto whole = c.run(*device, c.whole());
                if (expected.empty())
                    expected = whole;
                const auto cut = c.run(*device, c.pieces(random_));
                for (size_t s = 0; s < expected.size(); ++s) {
                    QVERIFY2(same_bits(whole[s].data(), expected[s].data(), expected[s].size()),
                             qPrintable(QString("%1, %2").arg(isa).arg(c.shape().c_str())));
                    QVERIFY2(
                        same_bits(cut[s].data(), expected[s].data(), expected[s].size()),
                        qPrintable(
                            QString("%1, %2 threads, cut, %3").arg(isa).arg(threads).arg(c.shape().c_str())));
                }
            }
    }
}

void CpuAttentionTest::infiniteValuesOfLaterTokensDoNotLeakBack_data() {
    QTest::addColumn<bool>("value_in_key");
    QTest::addRow("values of their own") << false;
    QTest::addRow("values in keys") << true;
}

void CpuAttentionTest::infiniteValuesOfLaterTokensDoNotLeakBack() {
    QFETCH(bool, value_in_key);
    AttentionCase c = random_attention(KvType::f16, 40, random_, false);
    if (value_in_key) {
        c.spec.value_in_key = true;
        c.spec.value_length = c.spec.key_length;
        for (auto& sequence : c.sequences)
            sequence.qkv = random_floats(static_cast<size_t>(40 * c.columns()), random_);
    }
    for (float& v : c.sequences[0].qkv)
        v *= 0.1f;
    for (auto i = static_cast<size_t>(39 * c.columns()); i < c.sequences[0].qkv.size(); ++i)
        c.sequences[0].qkv[i] = 1e6f; // beyond float16: stored as infinity
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        const auto results = c.run(*device, c.whole());
        for (size_t i = 0; i < static_cast<size_t>(39 * c.out_columns()); ++i)
            QVERIFY(std::isfinite(results[0][i]));
    }
}

void CpuAttentionTest::wrongInputIsRefused() {
    const auto device = make_cpu(1, isas().back());
    const KvCacheSpec spec{.layers = 1, .kv_heads = 2, .key_length = 16, .value_length = 16, .blocks = 3};
    const KvCache cache = device->create_kv_cache(spec);
    KvCacheSpec too_long = spec;
    too_long.value_in_key = true;
    too_long.value_length = 17;
    QVERIFY_THROWS_EXCEPTION(Error, device->create_kv_cache(too_long));

    const std::vector<int32_t> positions = {0}, kv_slots = {32}, offsets = {0}, table = {2};
    const Span span{0, 1, 0};
    const auto begin = [&](const std::vector<int32_t>& slots_of_rows, const std::vector<int32_t>& blocks) {
        const BlockLayout layout{slots_of_rows, offsets, blocks};
        device->begin({positions, positions, {&span, 1}, {&layout, 1}, {}, {}});
    };
    begin(kv_slots, table);
    const Buffer x = to_device(*device, std::vector<float>(256, 1.0f));
    const Buffer y = device->allocate(256 * sizeof(float));
    const View all = matrix(x, 1, 128);
    const RopeStoreOp store{
        .q = all.slice(0, 64), .k = all.slice(64, 32), .v = all.slice(96, 32), .cache = cache, .heads = 4};
    const AttentionOp attend{.q = all.slice(0, 64), .out = matrix(y, 1, 64), .cache = cache, .heads = 4};
    const auto refused = [&](auto op, auto change) {
        change(op);
        try {
            if constexpr (std::is_same_v<decltype(op), RopeStoreOp>)
                device->rope_store(op);
            else
                device->attention(op);
        } catch (const Error&) {
            return true;
        }
        return false;
    };
    QVERIFY(!refused(store, [](auto&) {}));
    QVERIFY(refused(store, [](auto& op) { op.layer = 1; }));
    QVERIFY(refused(store, [](auto& op) { op.layout = 1; }));
    QVERIFY(refused(store, [](auto& op) { op.v = {}; }));
    QVERIFY(refused(store, [](auto& op) { op.k = {}; }));
    QVERIFY(refused(store, [](auto& op) { op.heads = 3; }));
    QVERIFY(refused(store, [](auto& op) { op.q.type = ElementType::f16; }));
    QVERIFY(refused(store, [](auto& op) { op.rope.dimensions = 15; }));
    QVERIFY(refused(store, [](auto& op) {
        op.rope.dimensions = 8;
        op.rope.first = 9;
    }));
    QVERIFY(!refused(attend, [](auto&) {}));
    QVERIFY(refused(attend, [](auto& op) { op.layer = -1; }));
    QVERIFY(refused(attend, [](auto& op) { op.layout = 1; }));
    QVERIFY(refused(attend, [](auto& op) { op.heads = 3; }));
    QVERIFY(refused(attend, [](auto& op) { op.window = -1; }));
    QVERIFY(refused(attend, [](auto& op) { op.chunked = true; }));
    QVERIFY(refused(attend, [](auto& op) { op.out.columns = 32; }));
    begin({48}, table);
    QVERIFY(refused(store, [](auto&) {}));
    begin(kv_slots, {3});
    QVERIFY(refused(attend, [](auto&) {}));
    begin(kv_slots, {});
    QVERIFY(refused(attend, [](auto&) {}));
}

QTEST_GUILESS_MAIN(CpuAttentionTest)
#include "tst_cpu_attention.moc"
