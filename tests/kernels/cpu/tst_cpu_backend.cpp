// The CPU back end as a whole: the selftest, rows and blocks that are copied, fences, sharing, refusals.
#include "kernels/error.h"
#include "kernels/selftest.h"
#include "tests/kernels/cpu/attention_case.h"

#include <QtTest>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::kernels::test;
using orrery::test::from_device;
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

class CpuBackendTest : public QObject {
    Q_OBJECT

private slots:
    void init() {
        if (isas().empty())
            QSKIP("this processor has none of the code paths");
        const auto seed = std::random_device{}();
        qInfo("seed %u", seed);
        random_.seed(seed);
    }

    void passesTheSelftest();
    void embeddingsAndGathersCopyRows();
    void blocksAreCopiedAndMoved_data() { add_kv_types(); }
    void blocksAreCopiedAndMoved();
    void fencesPassOnceTheirOperationsHaveRun();
    void aSharedBackEndReadsWeightsAndConstants();
    void sharedBackEndsRunSideBySide();
    void wrongInputIsRefused();
    void profilesWhatRan();

private:
    std::mt19937 random_;
};

void CpuBackendTest::passesTheSelftest() {
    for (const char* isa : isas())
        for (const int threads : {1, 2}) {
            const auto device = make_cpu(threads, isa);
            SelftestOptions options;
            options.seed = static_cast<uint32_t>(random_());
            options.repeats = 1;
            for (const SelftestResult& result : run_selftest(*device, options))
                if (!result.passed)
                    QFAIL(qPrintable(QString("%1, %2 threads, seed %3: %4, %5: error %6, bound %7 %8")
                                         .arg(isa)
                                         .arg(threads)
                                         .arg(options.seed)
                                         .arg(result.operation.c_str())
                                         .arg(result.shape.c_str())
                                         .arg(result.error)
                                         .arg(result.bound)
                                         .arg(result.note.c_str())));
        }
}

void CpuBackendTest::embeddingsAndGathersCopyRows() {
    // Views of a wider buffer, as parts of a fused projection are.
    const auto device = make_cpu(2, isas().back());
    const auto table = random_weights(TensorType::Q8_0, 50, 64, random_);
    const WeightPart part{TensorType::Q8_0, 50, 64, table.data()};
    const Weight weight = device->load_weight({&part, 1});
    const auto places = random_floats(size_t{9} * 64, random_);
    const Weight place_table = orrery::test::load_f32(*device, places, 64);
    const std::vector<int32_t> ids = {3, 49, 0, 3, 17}, positions = {0, 1, 2, 6, 5}, wanted = {1, 4};
    device->begin({ids, positions, {}, {}, wanted, {}});
    const View x = matrix(device->allocate(5 * 80 * sizeof(float)), 5, 80).slice(9, 64);
    const View out = matrix(device->allocate(2 * 70 * sizeof(float)), 2, 70).slice(6, 64);
    device->embed({.table = weight, .out = x, .scale = 2.0f, .positions = place_table, .position_offset = 2});
    device->gather({x, out});
    const auto all = from_device(*device, out.buffer, 2 * 70);
    for (size_t i = 0; i < wanted.size(); ++i) {
        const auto row = static_cast<size_t>(wanted[i]);
        std::vector<float> want(64);
        decode(TensorType::Q8_0,
               table.data() + static_cast<size_t>(ids[row]) * row_bytes(TensorType::Q8_0, 64), want.data(),
               64);
        for (size_t k = 0; k < 64; ++k)
            QCOMPARE(all[i * 70 + 6 + k],
                     want[k] * 2.0f + places[(static_cast<size_t>(positions[row]) + 2) * 64 + k]);
        for (size_t k = 0; k < 6; ++k)
            QCOMPARE(all[i * 70 + k], 0.0f);
    }
    const std::vector<int32_t> too_far = {0, 1, 2, 7, 5};
    device->begin({ids, too_far, {}, {}, wanted, {}});
    QVERIFY_THROWS_EXCEPTION(
        Error, device->embed({.table = weight, .out = x, .positions = place_table, .position_offset = 2}));
}

void CpuBackendTest::blocksAreCopiedAndMoved() {
    // A sequence whose blocks were copied, and then sent to the host and back to other places, gives the
    // same bits.
    QFETCH(KvType, type);
    const AttentionCase c = random_attention(type, 50, random_, false);
    const auto device = make_cpu(2, isas().back());
    const auto expected = c.run(*device, c.whole());

    KvCacheSpec spec = c.spec;
    const int blocks = static_cast<int>(c.sequences[0].blocks.size());
    spec.blocks = 3 * blocks;
    const KvCache cache = device->create_kv_cache(spec);
    std::vector<int32_t> positions(50), first(static_cast<size_t>(blocks)), last(first.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::iota(first.begin(), first.end(), 0);
    std::iota(last.begin(), last.end(), 2 * blocks);
    const std::vector<int32_t> offsets = {0};
    const Span span{0, 50, 0};
    const BlockLayout before{positions, offsets, first}, after{positions, offsets, last};
    device->begin({positions, positions, {&span, 1}, {&before, 1}, {}, {}});
    const Buffer qkv = to_device(*device, c.sequences[0].qkv);
    RopeStoreOp store = c.store_op(qkv, cache, 50);
    store.rope.table = to_device(*device, c.rope);
    device->rope_store(store);
    std::vector<BlockCopy> copies;
    std::vector<BlockTransfer> out_of_cache, into_cache;
    const size_t block_bytes = device->kv_block_bytes(spec);
    for (int b = 0; b < blocks; ++b) {
        copies.push_back({b, b + blocks});
        const size_t place = static_cast<size_t>(blocks - 1 - b) * block_bytes;
        out_of_cache.push_back({b + blocks, place});
        into_cache.push_back({b + 2 * blocks, place});
    }
    const HostMemory host = device->allocate_host(static_cast<size_t>(blocks) * block_bytes);
    device->copy_kv_blocks(cache, copies);
    device->copy_kv_blocks_out(cache, out_of_cache, host);
    device->copy_kv_blocks_in(cache, into_cache, host);
    device->begin({positions, positions, {&span, 1}, {&after, 1}, {}, {}});
    const auto outputs = static_cast<size_t>(50 * c.out_columns());
    AttentionOp attend = c.attention;
    attend.q = store.q;
    attend.out = matrix(device->allocate(outputs * sizeof(float)), 50, c.out_columns());
    attend.cache = cache;
    attend.layer = c.layer;
    device->attention(attend);
    const auto got = from_device(*device, attend.out.buffer, outputs);
    QVERIFY(same_bits(got.data(), expected[0].data(), got.size()));
    device->release(host);
}

void CpuBackendTest::fencesPassOnceTheirOperationsHaveRun() {
    // What was copied out before a fence is there once it has passed; a later fence leaves it alone.
    const auto device = make_cpu(2, isas().back());
    const KvCacheSpec spec{.layers = 1, .kv_heads = 1, .key_length = 16, .value_length = 16, .blocks = 2};
    const KvCache cache = device->create_kv_cache(spec);
    const size_t bytes = device->kv_block_bytes(spec);
    const HostMemory host = device->allocate_host(2 * bytes);
    std::fill_n(host.bytes, bytes, std::byte{0x15});
    const BlockTransfer in{1, 0}, out{1, bytes};
    device->copy_kv_blocks_in(cache, {&in, 1}, host);
    device->copy_kv_blocks_out(cache, {&out, 1}, host);
    const Fence copied = device->fence();
    device->wait(copied);
    QVERIFY(std::equal(host.bytes, host.bytes + bytes, host.bytes + bytes));
    device->wait(device->fence()); // nothing is queued
    device->wait(copied);          // passed already
    const BlockTransfer beyond{1, 2 * bytes - 1}, no_block{2, 0};
    QVERIFY_THROWS_EXCEPTION(Error, device->copy_kv_blocks_out(cache, {&beyond, 1}, host));
    QVERIFY_THROWS_EXCEPTION(Error, device->copy_kv_blocks_in(cache, {&no_block, 1}, host));
    device->release(host);
    QVERIFY_THROWS_EXCEPTION(Error, device->copy_kv_blocks_in(cache, {&in, 1}, host));
}

void CpuBackendTest::aSharedBackEndReadsWeightsAndConstants() {
    const auto first = make_cpu(2, isas().back());
    const auto weights = random_weights(TensorType::Q8_0, 20, 64, random_);
    const WeightPart part{TensorType::Q8_0, 20, 64, weights.data()};
    const Weight weight = first->load_weight({&part, 1});
    const Buffer constant = to_device(*first, random_floats(64, random_));
    const auto input = random_floats(64, random_);
    const auto run = [&](Backend& device) {
        const Buffer x = to_device(device, input), out = device.allocate(20 * sizeof(float));
        device.linear({.x = matrix(x, 1, 64),
                       .weight = weight,
                       .out = matrix(out, 1, 20),
                       .norm = {.kind = NormKind::rms, .weight = constant}});
        return from_device(device, out, 20);
    };
    const auto expected = run(*first);
    const auto second = first->share();
    QCOMPARE(run(*second), expected);
    QCOMPARE(run(*first), expected);
    QVERIFY_THROWS_EXCEPTION(Error, second->release(weight));
    QVERIFY_THROWS_EXCEPTION(Error, second->release(constant));
    QVERIFY_THROWS_EXCEPTION(Error, second->upload(constant, 0, std::as_bytes(std::span(input))));
    QCOMPARE(run(*second), expected);
}

void CpuBackendTest::sharedBackEndsRunSideBySide() {
    // Two threads, each with a back end of its own on the same weights, rotations and threads; while one of
    // them takes memory and gives it back, the other computes what it computes alone.
    const auto first = make_cpu(3, isas().back());
    const auto weights = random_weights(TensorType::Q8_0, 96, 64, random_);
    const WeightPart part{TensorType::Q8_0, 96, 64, weights.data()};
    const Weight weight = first->load_weight({&part, 1});
    const Buffer constant = to_device(*first, random_floats(64, random_));
    const AttentionCase c = random_attention(KvType::f16, 70, random_);
    const auto input = random_floats(size_t{20} * 64, random_);
    const auto pieces = c.pieces(random_);
    const auto second = first->share();
    const auto run = [&](Backend& device) {
        const Buffer x = to_device(device, input), out = device.allocate(size_t{20} * 96 * sizeof(float));
        device.linear({.x = matrix(x, 20, 64),
                       .weight = weight,
                       .out = matrix(out, 20, 96),
                       .norm = {.kind = NormKind::rms, .weight = constant}});
        auto results = c.run(device, pieces);
        results.push_back(from_device(device, out, size_t{20} * 96));
        device.release(x);
        device.release(out);
        return results;
    };
    const auto expected = run(*first);
    std::atomic<int> different{0};
    const auto repeat = [&](Backend& device) {
        for (int i = 0; i < 20; ++i) {
            const auto got = run(device);
            for (size_t s = 0; s < got.size(); ++s)
                different += !same_bits(got[s].data(), expected[s].data(), got[s].size());
        }
    };
    std::thread other([&] { repeat(*second); });
    repeat(*first);
    other.join();
    QCOMPARE(different.load(), 0);
}

void CpuBackendTest::wrongInputIsRefused() {
    const auto device = make_cpu(1, isas().back());
    const std::vector<float> numbers(64, 1.0f);
    const WeightPart part{TensorType::F32, 2, 32, reinterpret_cast<const std::byte*>(numbers.data())};
    const Weight weight = device->load_weight({&part, 1});
    const Buffer small = device->allocate(16);
    const Buffer x = to_device(*device, numbers);
    const View in = matrix(x, 1, 32), out = matrix(x, 1, 2);
    QVERIFY_THROWS_EXCEPTION(Error,
                             device->linear({.x = matrix(small, 1, 32), .weight = weight, .out = out}));
    QVERIFY_THROWS_EXCEPTION(Error, device->linear({.x = in, .weight = {77}, .out = out}));
    QVERIFY_THROWS_EXCEPTION(Error, device->linear({.x = out, .weight = weight, .out = out}));
    QVERIFY_THROWS_EXCEPTION(
        Error, device->linear({.x = matrix(x, 1, 32, ElementType::bf16), .weight = weight, .out = out}));
    QVERIFY_THROWS_EXCEPTION(Error, device->upload(small, 8, std::as_bytes(std::span(numbers))));
    QVERIFY_THROWS_EXCEPTION(OutOfMemory, device->allocate(size_t{1} << 60));
    WeightPart wrong = part;
    wrong.type = static_cast<TensorType>(4); // ggml once had a type of that number
    QVERIFY_THROWS_EXCEPTION(Error, device->load_weight({&wrong, 1}));
    wrong = part;
    wrong.row_stride_bytes = 127;
    QVERIFY_THROWS_EXCEPTION(Error, device->load_weight({&wrong, 1}));
    LinearOp both{.x = in, .weight = weight, .out = out};
    both.norm.kind = NormKind::rms;
    both.activation.kind = ActivationKind::silu;
    QVERIFY_THROWS_EXCEPTION(Error, device->linear(both));
    QVERIFY_THROWS_EXCEPTION(Error, device->linear({.x = in, .weight = weight, .out = out, .groups = 3}));
    device->release(small);
    QVERIFY_THROWS_EXCEPTION(Error, device->release(small));
    const std::vector<int32_t> ids = {2};
    device->begin({ids, ids, {}, {}, {}, {}});
    QVERIFY_THROWS_EXCEPTION(Error, device->embed({weight, in}));
    qputenv("ORRERY_CPU_ISA", "sse");
    std::string why_not;
    QVERIFY_THROWS_EXCEPTION(Error, make_cpu_backend(1, why_not));
    qunsetenv("ORRERY_CPU_ISA");
}

void CpuBackendTest::profilesWhatRan() {
    const auto device = make_cpu(2, isas().back());
    const auto weights = random_weights(TensorType::Q4_0, 70, 64, random_);
    const WeightPart part{TensorType::Q4_0, 70, 64, weights.data()};
    const Weight weight = device->load_weight({&part, 1});
    const View x = matrix(to_device(*device, random_floats(size_t{30} * 64, random_)), 30, 64);
    const View out = matrix(device->allocate(size_t{30} * 70 * sizeof(float)), 30, 70);
    const auto run = [&] {
        device->linear({.x = x, .weight = weight, .out = out});
        device->synchronize();
    };
    run();
    QCOMPARE(device->take_profile().matmul_ns, uint64_t{0});
    device->set_profiling(true);
    run();
    const KernelProfile profile = device->take_profile();
    QVERIFY(profile.matmul_ns > 0);
    QCOMPARE(profile.attention_ns, uint64_t{0});
    QCOMPARE(device->take_profile().matmul_ns, uint64_t{0});
}

QTEST_GUILESS_MAIN(CpuBackendTest)
#include "tst_cpu_backend.moc"
