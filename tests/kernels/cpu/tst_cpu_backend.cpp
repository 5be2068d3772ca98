// The CPU back end against the reference, and against itself: law 1, bit for bit.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest.h"
#include "tests/kernels/cpu/random_weights.h"
#include "tests/kernels/device_floats.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::kernels::test;
using orrery::test::from_device;
using orrery::test::to_device;

namespace {

std::unique_ptr<Backend> make_cpu(int threads, const char* isa) {
    qputenv("ORRERY_CPU_ISA", isa);
    std::string why_not;
    auto backend = make_cpu_backend(threads, why_not);
    qunsetenv("ORRERY_CPU_ISA");
    return backend;
}

std::vector<const char*> isas() {
    std::vector<const char*> names;
    const cpu::IsaLevel best = cpu::cpu_features().best();
    if (best >= cpu::IsaLevel::avx2)
        names.push_back("avx2");
    if (best >= cpu::IsaLevel::avx512_vnni)
        names.push_back("avx512");
    return names;
}

bool is_float(TensorType type) {
    return type == TensorType::F32 || type == TensorType::F16 || type == TensorType::BF16;
}

/// √(Σ (a − b)² / Σ b²)
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
    double difference = 0.0, size = 1e-30;
    for (size_t i = 0; i < want.size(); ++i) {
        const double d = double(got[i]) - double(want[i]);
        difference += d * d;
        size += double(want[i]) * double(want[i]);
    }
    return std::sqrt(difference / size);
}

bool same_bits(const float* a, const float* b, size_t count) {
    return std::memcmp(a, b, count * sizeof(float)) == 0;
}

/// A linear operation with everything that it needs.
struct LinearCase {
    enum class Prologue { none, rms_norm, silu_gate };

    TensorType type;
    int64_t outputs, columns;
    Prologue prologue;
    bool bias, accumulate;
    std::vector<std::byte> weights;
    std::vector<float> x, norm, biases, start;

    size_t width() const { return static_cast<size_t>(columns * (prologue == Prologue::silu_gate ? 2 : 1)); }

    /// Rows [first, first + rows) of x through `device`.
    std::vector<float> run(Backend& device, int first, int rows) const {
        const WeightPart part{type, outputs, columns, weights.data()};
        const auto from = [&](const std::vector<float>& all, size_t row) {
            return std::vector<float>(
                all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(first) * row),
                all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(first + rows) * row));
        };
        LinearOp op{.x = matrix(to_device(device, from(x, width())), rows, static_cast<int64_t>(width())),
                    .weight = device.load_weight({&part, 1}),
                    .out =
                        matrix(to_device(device, from(start, static_cast<size_t>(outputs))), rows, outputs)};
        if (prologue == Prologue::rms_norm)
            op.norm = {.kind = NormKind::rms, .weight = to_device(device, norm)};
        if (prologue == Prologue::silu_gate)
            op.activation = {.kind = ActivationKind::silu, .gated = true};
        if (bias)
            op.bias = to_device(device, biases);
        op.accumulate = accumulate;
        device.linear(op);
        const auto result = from_device(device, op.out.buffer, static_cast<size_t>(rows * outputs));
        for (const Buffer buffer : {op.x.buffer, op.out.buffer, op.norm.weight, op.bias})
            if (buffer)
                device.release(buffer);
        device.release(op.weight);
        return result;
    }
};

LinearCase random_case(TensorType type, int rows, std::mt19937& random, int64_t least_outputs = 1) {
    LinearCase c;
    c.type = type;
    const auto block = static_cast<int64_t>(info(type).block_elements);
    c.outputs = static_cast<int64_t>(random() % 70) + least_outputs;
    c.columns = block == 1 ? static_cast<int64_t>(random() % 200 + 1)
                           : block * static_cast<int64_t>(random() % 4 + 1);
    c.prologue = static_cast<LinearCase::Prologue>(random() % 3);
    c.bias = random() % 2 == 0;
    c.accumulate = random() % 2 == 0;
    c.weights = random_weights(type, c.outputs, c.columns, random);
    c.x = random_floats(c.width() * static_cast<size_t>(rows), random);
    c.norm = random_floats(static_cast<size_t>(c.columns), random);
    c.biases = random_floats(static_cast<size_t>(c.outputs), random);
    c.start = random_floats(static_cast<size_t>(rows * c.outputs), random);
    return c;
}

/// Sequences over one cache, run through rope_store and attention.
struct AttentionCase {
    KvCacheSpec spec;
    int heads = 0;
    int dimensions = 0;
    RopeStyle style = RopeStyle::interleaved;
    int positions = 0;
    std::vector<float> rope;
    struct Sequence {
        std::vector<float> qkv; ///< [positions, columns]
        std::vector<int32_t> blocks;
    };
    std::vector<Sequence> sequences;

    size_t columns() const {
        return static_cast<size_t>((heads + spec.kv_heads) * spec.key_length +
                                   spec.kv_heads * spec.value_length);
    }
    size_t out_columns() const { return static_cast<size_t>(heads * spec.value_length); }

    /// qkv is [rows, columns()]: all query heads, then all key heads, then all value heads.
    RopeStoreOp store_op(Buffer qkv, KvCache cache, int layer, int64_t rows) const {
        const View all = matrix(qkv, rows, static_cast<int64_t>(columns()));
        const int64_t queries = int64_t{heads} * spec.key_length;
        const int64_t keys = int64_t{spec.kv_heads} * spec.key_length;
        return {.q = all.slice(0, queries),
                .k = all.slice(queries, keys),
                .v = all.slice(queries + keys, int64_t{spec.kv_heads} * spec.value_length),
                .cache = cache,
                .layer = layer,
                .heads = heads};
    }
    AttentionOp attention_op(Buffer qkv, Buffer out, KvCache cache, int layer, int64_t rows) const {
        return {.q = store_op(qkv, cache, layer, rows).q,
                .out = matrix(out, rows, static_cast<int64_t>(out_columns())),
                .cache = cache,
                .layer = layer,
                .heads = heads,
                .scale = 1.0f / std::sqrt(static_cast<float>(spec.key_length))};
    }

    struct Piece {
        size_t sequence;
        int first, count;
    };
    /// Runs batches of pieces; results of all positions of all sequences.
    std::vector<std::vector<float>> run(Backend& device,
                                        const std::vector<std::vector<Piece>>& batches) const {
        std::vector<std::vector<float>> results(sequences.size());
        for (auto& result : results)
            result.resize(static_cast<size_t>(positions) * out_columns());
        const KvCache cache = device.create_kv_cache(spec);
        const Buffer rotations = to_device(device, rope);
        for (const auto& pieces : batches) {
            std::vector<int32_t> ids, row_positions, places, offsets, tables;
            std::vector<Span> spans;
            std::vector<float> qkv;
            for (const Piece& piece : pieces) {
                const Sequence& s = sequences[piece.sequence];
                spans.push_back({static_cast<int32_t>(ids.size()), piece.count, piece.first});
                offsets.push_back(static_cast<int32_t>(tables.size()));
                for (int p = piece.first; p < piece.first + piece.count; ++p) {
                    ids.push_back(0);
                    row_positions.push_back(p);
                    places.push_back(s.blocks[static_cast<size_t>(p / spec.block_size)] * spec.block_size +
                                     p % spec.block_size);
                    const auto row =
                        s.qkv.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(p) * columns());
                    qkv.insert(qkv.end(), row, row + static_cast<std::ptrdiff_t>(columns()));
                }
                tables.insert(tables.end(), s.blocks.begin(), s.blocks.end());
            }
            const BlockLayout layout{places, offsets, tables};
            device.begin({ids, row_positions, spans, {&layout, 1}, {}, {}});
            const Buffer x = to_device(device, qkv);
            const Buffer out = device.allocate(ids.size() * out_columns() * sizeof(float));
            const auto row_count = static_cast<int64_t>(ids.size());
            for (int layer = 0; layer < spec.layers; ++layer) {
                RopeStoreOp store = store_op(x, cache, layer, row_count);
                if (layer == 0) // turned in place: the second layer stores what the first has turned
                    store.rope = {.table = rotations, .dimensions = dimensions, .style = style};
                device.rope_store(store);
            }
            device.attention(attention_op(x, out, cache, spec.layers - 1, row_count));
            const auto rows = from_device(device, out, ids.size() * out_columns());
            size_t at = 0;
            for (const Piece& piece : pieces) {
                const size_t count = static_cast<size_t>(piece.count) * out_columns();
                std::copy_n(
                    rows.begin() + static_cast<std::ptrdiff_t>(at), count,
                    results[piece.sequence].begin() +
                        static_cast<std::ptrdiff_t>(static_cast<size_t>(piece.first) * out_columns()));
                at += count;
            }
            device.release(x);
            device.release(out);
        }
        device.release(rotations);
        device.release(cache);
        return results;
    }

    /// All sequences in one batch, whole.
    std::vector<std::vector<Piece>> whole() const {
        std::vector<Piece> pieces;
        for (size_t s = 0; s < sequences.size(); ++s)
            pieces.push_back({s, 0, positions});
        return {pieces};
    }
};

AttentionCase random_attention(KvType type, int positions, std::mt19937& random) {
    AttentionCase c;
    const auto pick = [&random](std::initializer_list<int> from) {
        return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
    };
    c.spec.layers = 2;
    c.spec.kv_heads = pick({1, 2, 3});
    c.spec.key_length = pick({16, 40, 64, 80, 96, 128});
    c.spec.value_length = random() % 2 == 0 ? c.spec.key_length : pick({8, 16, 64, 72, 128});
    c.spec.block_size = pick({1, 5, 8, 16, 16, 32, 64});
    c.spec.type = type;
    c.heads = c.spec.kv_heads * pick({1, 2, 3, 5, 8});
    if (random() % 6 == 0)
        c.heads = c.spec.kv_heads * 20; // more than one tile of queries per row
    c.positions = positions;
    c.style = random() % 2 == 0 ? RopeStyle::interleaved : RopeStyle::halves;
    c.dimensions = random() % 2 == 0 ? c.spec.key_length : c.spec.key_length / 2 / 2 * 2;
    for (int p = 0; p < positions; ++p)
        for (int i = 0; i < c.dimensions / 2; ++i) {
            const double angle = p * std::pow(10000.0, -2.0 * i / c.dimensions);
            c.rope.push_back(static_cast<float>(std::cos(angle)));
            c.rope.push_back(static_cast<float>(std::sin(angle)));
        }
    const int blocks = (positions + c.spec.block_size - 1) / c.spec.block_size;
    const size_t count = 3;
    c.spec.blocks = blocks * static_cast<int>(count);
    std::vector<int32_t> order(static_cast<size_t>(c.spec.blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t s = 0; s < count; ++s) {
        AttentionCase::Sequence sequence;
        sequence.qkv = random_floats(static_cast<size_t>(positions) * c.columns(), random);
        sequence.blocks.assign(order.begin() + static_cast<std::ptrdiff_t>(s * static_cast<size_t>(blocks)),
                               order.begin() +
                                   static_cast<std::ptrdiff_t>((s + 1) * static_cast<size_t>(blocks)));
        c.sequences.push_back(std::move(sequence));
    }
    return c;
}

void add_types() {
    QTest::addColumn<int>("type");
    for (const TensorType type : all_tensor_types())
        QTest::addRow("%s", info(type).name) << static_cast<int>(type);
}

void add_kv_types() {
    QTest::addColumn<int>("type");
    QTest::addRow("f32") << static_cast<int>(KvType::f32);
    QTest::addRow("f16") << static_cast<int>(KvType::f16);
    QTest::addRow("int8") << static_cast<int>(KvType::int8);
    QTest::addRow("int4") << static_cast<int>(KvType::int4);
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
    void linearIsCloseToTheReference_data() { add_types(); }
    void linearIsCloseToTheReference();
    void linearIsExactWhereActivationsAre_data() { add_types(); }
    void linearIsExactWhereActivationsAre();
    void linearRowsDoNotDependOnTheirNeighbours_data() { add_types(); }
    void linearRowsDoNotDependOnTheirNeighbours();
    void partsOfDifferentFormatsAreStacked();
    void attentionIsCloseToTheReference_data() { add_kv_types(); }
    void attentionIsCloseToTheReference();
    void attentionDoesNotDependOnTheBatch_data() { add_kv_types(); }
    void attentionDoesNotDependOnTheBatch();
    void infiniteValuesOfLaterTokensDoNotLeakBack();
    void embeddingsAndGathersCopyRows();
    void blocksAreCopiedAndMoved_data() { add_kv_types(); }
    void blocksAreCopiedAndMoved();
    void fencesPassOnceTheirOperationsHaveRun();
    void aSharedBackEndReadsWeightsAndConstants();
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

void CpuBackendTest::linearIsCloseToTheReference() {
    QFETCH(int, type);
    const auto tensor_type = static_cast<TensorType>(type);
    ReferenceBackend reference;
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        for (int i = 0; i < 6; ++i) {
            const int rows = static_cast<int>(random_() % 12 + 8);
            const LinearCase c = random_case(tensor_type, rows, random_, 48);
            const double error = relative_error(c.run(*device, 0, rows), c.run(reference, 0, rows));
            // Int8 activations: rounding errors are uniform within ± 1/254 of a group's largest element,
            // which is about 2.5 standard deviations: 2.5 / 254 / √3 = 0.6 %. Small outputs and gates have
            // larger groups' peaks: three times that. (Of
            // many outputs: a single one may be small by cancellation.)
            const double bound = is_float(tensor_type) ? 1e-5 : 0.018;
            QVERIFY2(error <= bound, qPrintable(QString("%1: relative error %2, %3 × %4, prologue %5")
                                                    .arg(isa)
                                                    .arg(error)
                                                    .arg(c.outputs)
                                                    .arg(c.columns)
                                                    .arg(static_cast<int>(c.prologue))));
        }
    }
}

void CpuBackendTest::linearIsExactWhereActivationsAre() {
    // Integers with 127 in each group of 32 survive the rounding: what is left is float arithmetic.
    QFETCH(int, type);
    const auto tensor_type = static_cast<TensorType>(type);
    ReferenceBackend reference;
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        for (int i = 0; i < 4; ++i) {
            const int rows = static_cast<int>(random_() % 20 + 1);
            LinearCase c = random_case(tensor_type, rows, random_);
            c.prologue = LinearCase::Prologue::none;
            c.x.resize(c.width() * static_cast<size_t>(rows));
            for (size_t k = 0; k < c.x.size(); ++k)
                c.x[k] = k % 32 == 7 ? 127.0f : static_cast<float>(static_cast<int>(random_() % 255) - 127);
            const double error = relative_error(c.run(*device, 0, rows), c.run(reference, 0, rows));
            QVERIFY2(error <= 1e-5, qPrintable(QString("%1: relative error %2").arg(isa).arg(error)));
        }
    }
}

void CpuBackendTest::linearRowsDoNotDependOnTheirNeighbours() {
    QFETCH(int, type);
    const auto tensor_type = static_cast<TensorType>(type);
    const int rows = 27;
    for (int round = 0; round < 3; ++round) {
        const LinearCase c = random_case(tensor_type, rows, random_);
        const auto outputs = static_cast<size_t>(c.outputs);
        std::vector<float> expected;
        for (const char* isa : isas())
            for (const int threads : {1, 2, 3}) {
                const auto device = make_cpu(threads, isa);
                const auto all = c.run(*device, 0, rows);
                if (expected.empty())
                    expected = all;
                QVERIFY2(same_bits(all.data(), expected.data(), all.size()), isa);
                for (int first = 0; first < rows;) {
                    const int count = std::min(rows - first, static_cast<int>(random_() % 9 + 1));
                    const auto some = c.run(*device, first, count);
                    QVERIFY2(same_bits(some.data(), expected.data() + static_cast<size_t>(first) * outputs,
                                       some.size()),
                             qPrintable(QString("%1, %2 threads, rows %3 + %4")
                                            .arg(isa)
                                            .arg(threads)
                                            .arg(first)
                                            .arg(count)));
                    first += count;
                }
            }
    }
}

void CpuBackendTest::partsOfDifferentFormatsAreStacked() {
    const int64_t columns = 512;
    const auto q4 = random_weights(TensorType::Q4_1, 19, columns, random_);
    const auto f16 = random_weights(TensorType::F16, 5, columns, random_);
    const auto q6 = random_weights(TensorType::Q6_K, 33, columns, random_);
    const WeightPart parts[] = {{TensorType::Q4_1, 19, columns, q4.data()},
                                {TensorType::F16, 5, columns, f16.data()},
                                {TensorType::Q6_K, 33, columns, q6.data()}};
    const auto x = random_floats(static_cast<size_t>(40 * columns), random_);
    const auto norm = random_floats(static_cast<size_t>(columns), random_);
    const auto bias = random_floats(57, random_);
    const auto run = [&](Backend& device, int rows) {
        LinearOp op{.x = matrix(to_device(device, x), 40, columns).top(rows),
                    .weight = device.load_weight(parts),
                    .out = matrix(device.allocate(static_cast<size_t>(rows) * 57 * sizeof(float)), rows, 57)};
        op.norm = {.kind = NormKind::rms, .weight = to_device(device, norm)};
        op.bias = to_device(device, bias);
        device.linear(op);
        return from_device(device, op.out.buffer, static_cast<size_t>(rows) * 57);
    };
    ReferenceBackend reference;
    const auto want = run(reference, 40);
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        const auto got = run(*device, 40);
        QVERIFY(relative_error(got, want) < 0.018);
        const auto alone = run(*device, 1);
        QVERIFY(same_bits(alone.data(), got.data(), alone.size()));
    }
}

void CpuBackendTest::attentionIsCloseToTheReference() {
    QFETCH(int, type);
    ReferenceBackend reference;
    for (int round = 0; round < 6; ++round) {
        const int positions = static_cast<int>(random_() % 60 + (round % 3 == 0 ? 250 : 1));
        const AttentionCase c = random_attention(static_cast<KvType>(type), positions, random_);
        const auto want = c.run(reference, c.whole());
        for (const char* isa : isas()) {
            const auto device = make_cpu(2, isa);
            const auto got = c.run(*device, c.whole());
            // Rotations differ in the last bit, which tips the rounding of an element now and then.
            const double bound = static_cast<KvType>(type) == KvType::f32 ? 1e-5 : 2e-3;
            for (size_t s = 0; s < want.size(); ++s) {
                const double error = relative_error(got[s], want[s]);
                QVERIFY2(error <= bound,
                         qPrintable(QString("%1: relative error %2, key %3, value %4, block %5, heads %6/%7")
                                        .arg(isa)
                                        .arg(error)
                                        .arg(c.spec.key_length)
                                        .arg(c.spec.value_length)
                                        .arg(c.spec.block_size)
                                        .arg(c.heads)
                                        .arg(c.spec.kv_heads)));
            }
        }
    }
}

void CpuBackendTest::attentionDoesNotDependOnTheBatch() {
    QFETCH(int, type);
    for (int round = 0; round < 3; ++round) {
        const int positions = round == 0 ? 600 : static_cast<int>(random_() % 300 + 1);
        const AttentionCase c = random_attention(static_cast<KvType>(type), positions, random_);
        std::vector<std::vector<float>> expected;
        for (const char* isa : isas())
            for (const int threads : {1, 2, 3}) {
                const auto device = make_cpu(threads, isa);
                const auto whole = c.run(*device, c.whole());
                if (expected.empty())
                    expected = whole;
                // Random pieces of all sequences, interleaved at random.
                std::vector<std::vector<AttentionCase::Piece>> batches;
                std::vector<int> done(c.sequences.size(), 0);
                while (*std::min_element(done.begin(), done.end()) < positions) {
                    std::vector<AttentionCase::Piece> pieces;
                    for (size_t s = 0; s < done.size(); ++s) {
                        if (done[s] == positions || (random_() % 3 == 0))
                            continue;
                        const int most = random_() % 2 == 0 ? 4 : 200;
                        const int count =
                            std::min(positions - done[s], static_cast<int>(random_() % most + 1));
                        pieces.push_back({s, done[s], count});
                        done[s] += count;
                    }
                    if (!pieces.empty())
                        batches.push_back(pieces);
                }
                const auto cut = c.run(*device, batches);
                for (size_t s = 0; s < expected.size(); ++s) {
                    QVERIFY2(same_bits(whole[s].data(), expected[s].data(), expected[s].size()), isa);
                    QVERIFY2(same_bits(cut[s].data(), expected[s].data(), expected[s].size()),
                             qPrintable(QString("%1, %2 threads, cut").arg(isa).arg(threads)));
                }
            }
    }
}

void CpuBackendTest::infiniteValuesOfLaterTokensDoNotLeakBack() {
    AttentionCase c = random_attention(KvType::f16, 40, random_);
    for (float& v : c.sequences[0].qkv)
        v *= 0.1f;
    const size_t last_row = 39 * c.columns();
    for (size_t i = last_row; i < c.sequences[0].qkv.size(); ++i)
        c.sequences[0].qkv[i] = 1e6f; // beyond float16: stored as infinity
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        const auto results = c.run(*device, c.whole());
        for (size_t i = 0; i < 39 * c.out_columns(); ++i)
            QVERIFY(std::isfinite(results[0][i]));
    }
}

void CpuBackendTest::embeddingsAndGathersCopyRows() {
    const int64_t columns = 64;
    const auto table = random_weights(TensorType::Q8_0, 50, columns, random_);
    const WeightPart part{TensorType::Q8_0, 50, columns, table.data()};
    const auto device = make_cpu(2, isas().back());
    const Weight weight = device->load_weight({&part, 1});
    const std::vector<int32_t> ids = {3, 49, 0, 3, 17};
    const std::vector<int32_t> wanted = {1, 4};
    device->begin({ids, ids, {}, {}, wanted, {}});
    const Buffer x = device->allocate(5 * 64 * sizeof(float));
    const Buffer out = device->allocate(2 * 64 * sizeof(float));
    device->embed({weight, matrix(x, 5, 64), 2.0f});
    device->gather({matrix(x, 5, 64), matrix(out, 2, 64)});
    const auto rows = from_device(*device, out, 2 * 64);
    for (size_t i = 0; i < wanted.size(); ++i) {
        std::vector<float> want(64);
        decode(TensorType::Q8_0,
               table.data() +
                   static_cast<size_t>(ids[static_cast<size_t>(wanted[i])]) * row_bytes(TensorType::Q8_0, 64),
               want.data(), 64);
        for (size_t k = 0; k < 64; ++k)
            QCOMPARE(rows[i * 64 + k], want[k] * 2.0f);
    }
}

void CpuBackendTest::blocksAreCopiedAndMoved() {
    // A sequence whose blocks were copied, and then sent to the host and back to other places, gives the
    // same bits.
    QFETCH(int, type);
    AttentionCase c = random_attention(static_cast<KvType>(type), 50, random_);
    const auto device = make_cpu(2, isas().back());
    const auto expected = c.run(*device, c.whole());

    KvCacheSpec spec = c.spec;
    const int blocks = static_cast<int>(c.sequences[0].blocks.size());
    spec.blocks = 3 * blocks;
    const KvCache cache = device->create_kv_cache(spec);
    std::vector<int32_t> positions(50), places, first(static_cast<size_t>(blocks)), last(first.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::iota(first.begin(), first.end(), 0);
    std::iota(last.begin(), last.end(), 2 * blocks);
    for (const int32_t p : positions)
        places.push_back(p);
    const std::vector<int32_t> offsets = {0};
    const Span span{0, 50, 0};
    const BlockLayout before{places, offsets, first}, after{places, offsets, last};
    device->begin({positions, positions, {&span, 1}, {&before, 1}, {}, {}});
    const Buffer qkv = to_device(*device, c.sequences[0].qkv);
    RopeStoreOp store = c.store_op(qkv, cache, 0, 50);
    store.rope = {.table = to_device(*device, c.rope), .dimensions = c.dimensions, .style = c.style};
    device->rope_store(store);
    device->rope_store(c.store_op(qkv, cache, 1, 50));
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
    const Buffer out = device->allocate(50 * c.out_columns() * sizeof(float));
    device->attention(c.attention_op(qkv, out, cache, 1, 50));
    const auto got = from_device(*device, out, 50 * c.out_columns());
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
    const LinearCase c = random_case(TensorType::Q4_0, 30, random_);
    c.run(*device, 0, 30);
    QCOMPARE(device->take_profile().matmul_ns, uint64_t{0});
    device->set_profiling(true);
    c.run(*device, 0, 30);
    const KernelProfile profile = device->take_profile();
    QVERIFY(profile.matmul_ns > 0);
    QCOMPARE(profile.attention_ns, uint64_t{0});
    QCOMPARE(device->take_profile().matmul_ns, uint64_t{0});
}

QTEST_GUILESS_MAIN(CpuBackendTest)
#include "tst_cpu_backend.moc"
