// The reference back end against numbers worked out elsewhere: by numpy (operation_cases.h), by hand, and
// by plain attention in double over contiguous keys and values.
#include "kernels/error.h"
#include "kernels/quant/kv_row.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/device_floats.h"
#include "tests/kernels/reference/operation_cases.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::test;

namespace {

bool near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance) {
    if (got.size() != expected.size())
        return false;
    for (size_t i = 0; i < got.size(); ++i)
        if (!(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0f, std::abs(expected[i])))) {
            qWarning("element %zu: %g, not %g", i, static_cast<double>(got[i]),
                     static_cast<double>(expected[i]));
            return false;
        }
    return true;
}

std::vector<float> random_floats(size_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values)
        value = normal(random);
    return values;
}

std::vector<int32_t> counting(size_t count) {
    std::vector<int32_t> values(count);
    std::iota(values.begin(), values.end(), 0);
    return values;
}

/// A batch of one sequence from position 0, in the first blocks of the cache.
struct OneSequence {
    explicit OneSequence(int32_t tokens, int32_t block_size)
        : numbers(counting(static_cast<size_t>(tokens))),
          blocks(counting(static_cast<size_t>((tokens + block_size - 1) / block_size))),
          kv_slots(numbers),
          span{0, tokens, 0} {}
    ForwardBatch batch() {
        layout = {kv_slots, {&table_offset, 1}, blocks};
        return {numbers, numbers, {&span, 1}, {&layout, 1}, {}, {}};
    }
    std::vector<int32_t> numbers;
    std::vector<int32_t> blocks;
    std::vector<int32_t> kv_slots;
    int32_t table_offset = 0;
    Span span;
    BlockLayout layout;
};

/// The parts of a fused projection: queries, keys and values beside each other.
struct Fused {
    Fused(Buffer buffer, int64_t rows, int64_t heads, int64_t kv_heads, int64_t key_length,
          int64_t value_length) {
        const View all = matrix(buffer, rows, (heads + kv_heads) * key_length + kv_heads * value_length);
        q = all.slice(0, heads * key_length);
        k = all.slice(heads * key_length, kv_heads * key_length);
        v = all.slice((heads + kv_heads) * key_length, kv_heads * value_length);
    }
    View q, k, v;
};

/// Expects that the call throws Error and that the sentence has the given word in it.
template <typename Call>
bool refuses(Call call, const char* word) {
    try {
        call();
    } catch (const Error& error) {
        if (std::strstr(error.what(), word))
            return true;
        qWarning("the sentence '%s' does not speak of '%s'", error.what(), word);
    }
    return false;
}

} // namespace

class TestReferenceBackend : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        seed_ = std::random_device()();
        qInfo("seed %u", seed_);
    }

    void linear_is_what_numpy_computes() {
        ReferenceBackend device({.poison = true});
        const Weight weight = load_f32(device, cases::weight, 6);
        const Buffer out = device.allocate(24);
        LinearOp op{
            .x = matrix(to_device(device, cases::x), 2, 6), .weight = weight, .out = matrix(out, 2, 3)};
        op.bias = to_device(device, cases::bias);
        device.linear(op);
        QVERIFY(near(from_device(device, out, 6), cases::linear, 1e-6f));

        op.bias = {};
        op.norm = {.kind = NormKind::rms, .weight = to_device(device, cases::norm), .eps = 1e-5f};
        device.linear(op);
        QVERIFY(near(from_device(device, out, 6), cases::norm_linear, 1e-6f));

        op.norm = {};
        op.activation = {.kind = ActivationKind::silu, .gated = true};
        op.x = matrix(to_device(device, cases::gated), 2, 12);
        device.linear(op);
        QVERIFY(near(from_device(device, out, 6), cases::gated_linear, 1e-6f));
    }

    void accumulating_adds_to_what_was_there() {
        ReferenceBackend device;
        const std::vector<float> identity = {1, 0, 0, 1};
        const Buffer out = to_device(device, {10, 20});
        const LinearOp op{.x = matrix(to_device(device, {3, 4}), 1, 2),
                          .weight = load_f32(device, identity, 2),
                          .out = matrix(out, 1, 2),
                          .bias = to_device(device, {100, 200}),
                          .accumulate = true};
        device.linear(op);
        device.linear(op);
        QCOMPARE(from_device(device, out, 2), (std::vector<float>{216, 428}));
    }

    void parts_of_different_formats_are_stacked() {
        ReferenceBackend device;
        std::vector<float> weights(3 * 32);
        for (size_t i = 0; i < weights.size(); ++i)
            weights[i] = static_cast<float>(i / 32 + 1) * static_cast<float>(i % 2 ? 1 : -1);
        std::vector<std::byte> q8(row_bytes(TensorType::Q8_0, 64));
        std::vector<std::byte> bf16(row_bytes(TensorType::BF16, 32));
        encode(TensorType::Q8_0, weights.data(), q8.data(), 64);
        encode(TensorType::BF16, weights.data() + 64, bf16.data(), 32);
        const WeightPart parts[] = {{TensorType::Q8_0, 2, 32, q8.data()},
                                    {TensorType::BF16, 1, 32, bf16.data()}};
        const Weight weight = device.load_weight(parts);
        QCOMPARE(device.weight_bytes(weight), size_t{2 * 34 + 64});

        std::vector<float> x(32, 0.0f);
        x[3] = 2.0f;
        const Buffer out = device.allocate(12);
        device.linear({.x = matrix(to_device(device, x), 1, 32), .weight = weight, .out = matrix(out, 1, 3)});
        QVERIFY(near(from_device(device, out, 3), {2, 4, 6}, 1e-3f));

        OneSequence three(3, 16);
        const Buffer embeddings = device.allocate(3 * 32 * sizeof(float));
        device.begin(three.batch());
        device.embed({weight, matrix(embeddings, 3, 32), 10.0f});
        const std::vector<float> rows = from_device(device, embeddings, 3 * 32);
        for (size_t i = 0; i < rows.size(); ++i)
            QVERIFY(std::abs(rows[i] - 10 * weights[i]) <= 0.02f);
    }

    void rope_turns_as_complex_numbers_do_data() {
        QTest::addColumn<bool>("interleaved");
        QTest::newRow("interleaved") << true;
        QTest::newRow("halves") << false;
    }
    void rope_turns_as_complex_numbers_do() {
        QFETCH(bool, interleaved);
        ReferenceBackend device({.poison = true});
        const KvCache cache = device.create_kv_cache({.layers = 1,
                                                      .kv_heads = 1,
                                                      .key_length = 6,
                                                      .value_length = 2,
                                                      .block_size = 2,
                                                      .blocks = 2,
                                                      .type = KvType::f32});
        const Buffer qkv = to_device(device, cases::qkv);
        const Fused parts(qkv, 3, 1, 1, 6, 2);
        OneSequence sequence(3, 2);
        device.begin(sequence.batch());
        device.rope_store({.q = parts.q,
                           .k = parts.k,
                           .v = parts.v,
                           .cache = cache,
                           .heads = 1,
                           .rope = {.table = to_device(device, cases::rope),
                                    .dimensions = 4,
                                    .style = interleaved ? RopeStyle::interleaved : RopeStyle::halves}});
        const std::vector<float>& expected = interleaved ? cases::turned_interleaved : cases::turned_halves;
        QVERIFY(near(from_device(device, qkv, 3 * 14), expected, 1e-6f));

        // The cache has the turned keys and the values as they are: two blocks of [keys, values].
        std::vector<float> block(2 * (6 + 2));
        for (size_t token = 0; token < 3; ++token) {
            const std::vector<std::byte> content = block_from_device(
                device, cache, static_cast<int32_t>(token / 2), block.size() * sizeof(float));
            std::memcpy(block.data(), content.data(), content.size());
            const auto key = block.begin() + static_cast<std::ptrdiff_t>(token % 2 * 6);
            const auto value = block.begin() + static_cast<std::ptrdiff_t>(12 + token % 2 * 2);
            const auto row = expected.begin() + static_cast<std::ptrdiff_t>(token * 14);
            QVERIFY(near({key, key + 6}, {row + 6, row + 12}, 1e-6f));
            QVERIFY(near({value, value + 2}, {row + 12, row + 14}, 0));
        }
    }

    void attention_is_what_numpy_computes_data() { kv_types(); }
    void attention_is_what_numpy_computes() {
        QFETCH(KvType, type);
        QFETCH(float, tolerance);
        ReferenceBackend device({.poison = true});
        const KvCache cache = device.create_kv_cache({.layers = 2,
                                                      .kv_heads = 2,
                                                      .key_length = 4,
                                                      .value_length = 3,
                                                      .block_size = 4,
                                                      .blocks = 2,
                                                      .type = type});
        const Buffer qkv = to_device(device, cases::attention_qkv);
        const Buffer out = device.allocate(7 * 12 * sizeof(float));
        const Fused parts(qkv, 7, 4, 2, 4, 3);
        OneSequence sequence(7, 4);
        device.begin(sequence.batch());
        device.rope_store({.q = parts.q, .k = parts.k, .v = parts.v, .cache = cache, .layer = 1, .heads = 4});
        device.attention(
            {.q = parts.q, .out = matrix(out, 7, 12), .cache = cache, .layer = 1, .heads = 4, .scale = 0.5f});
        QVERIFY(near(from_device(device, out, 7 * 12), cases::attention, tolerance));
    }

    // Sequences that are fed in pieces, into blocks that lie anywhere, several in a batch: against plain
    // softmax attention in double over the same tokens laid out one after the other, once their keys and
    // values have been rounded as the cache rounds them.
    void paged_attention_is_contiguous_attention_data() { kv_types(); }
    void paged_attention_is_contiguous_attention() {
        QFETCH(KvType, type);
        std::mt19937 random(seed_);
        constexpr int heads = 6, kv_heads = 2, key_length = 48, value_length = 40, block_size = 4,
                      blocks = 40;
        constexpr size_t width = (heads + kv_heads) * key_length + kv_heads * value_length;
        ReferenceBackend device({.poison = true});
        const KvCache cache =
            device.create_kv_cache({1, kv_heads, key_length, value_length, block_size, blocks, type});
        std::vector<int32_t> free_blocks = counting(blocks);
        std::shuffle(free_blocks.begin(), free_blocks.end(), random);

        struct Sequence {
            std::vector<float> rows;    // [tokens, width]
            std::vector<float> rounded; // the same with keys and values as the cache keeps them
            std::vector<int32_t> table;
            int32_t computed = 0;
        };
        std::vector<Sequence> sequences(3);
        for (Sequence& sequence : sequences) {
            sequence.rows = random_floats(37 * width, random);
            sequence.rounded = sequence.rows;
            for (size_t row = 0; row < 37; ++row) {
                float* keys = &sequence.rounded[row * width + heads * key_length];
                for (int head = 0; head < kv_heads; ++head) {
                    round_key(type, keys + head * key_length, key_length);
                    round_trip(type, keys + kv_heads * key_length + head * value_length, value_length);
                }
            }
        }

        for (int step = 0; step < 8; ++step) {
            std::vector<float> rows;
            std::vector<int32_t> positions, kv_slots, table_offsets, tables;
            std::vector<Span> spans;
            for (Sequence& sequence : sequences) {
                const int32_t count =
                    std::min<int32_t>(std::uniform_int_distribution(1, 6)(random), 37 - sequence.computed);
                if (count == 0)
                    continue;
                spans.push_back({static_cast<int32_t>(positions.size()), count, sequence.computed});
                table_offsets.push_back(static_cast<int32_t>(tables.size()));
                for (int32_t position = sequence.computed; position < sequence.computed + count; ++position) {
                    if (position % block_size == 0) {
                        sequence.table.push_back(free_blocks.back());
                        free_blocks.pop_back();
                    }
                    positions.push_back(position);
                    kv_slots.push_back(sequence.table.back() * block_size + position % block_size);
                    const auto row = sequence.rows.begin() + static_cast<std::ptrdiff_t>(position * width);
                    rows.insert(rows.end(), row, row + width);
                }
                sequence.computed += count;
                tables.insert(tables.end(), sequence.table.begin(), sequence.table.end());
            }
            const size_t count = positions.size();
            const Buffer qkv = to_device(device, rows);
            const Buffer out = device.allocate(count * heads * value_length * sizeof(float));
            const Fused parts(qkv, static_cast<int64_t>(count), heads, kv_heads, key_length, value_length);
            const BlockLayout layout = {kv_slots, table_offsets, tables};
            device.begin({positions, positions, spans, {&layout, 1}, {}, {}});
            device.rope_store({.q = parts.q, .k = parts.k, .v = parts.v, .cache = cache, .heads = heads});
            device.attention({.q = parts.q,
                              .out = matrix(out, static_cast<int64_t>(count), heads * value_length),
                              .cache = cache,
                              .heads = heads,
                              .scale = 0.2f});
            const std::vector<float> got = from_device(device, out, count * heads * value_length);
            device.release(qkv);
            device.release(out);

            size_t span_index = 0;
            for (const Sequence& sequence : sequences) {
                if (span_index == spans.size() ||
                    sequence.computed != spans[span_index].first_position + spans[span_index].rows)
                    continue;
                const Span& span = spans[span_index++];
                for (int32_t i = 0; i < span.rows; ++i)
                    for (int head = 0; head < heads; ++head) {
                        const std::vector<float> expected =
                            plain_attention(sequence.rounded, width, span.first_position + i, head, heads,
                                            kv_heads, key_length, value_length, 0.2);
                        const auto row = got.begin() + ((span.first_row + i) * heads + head) * value_length;
                        QVERIFY(near({row, row + value_length}, expected, 1e-5f));
                    }
            }
            QCOMPARE(span_index, spans.size());
        }
    }

    void gather_takes_the_output_rows() {
        ReferenceBackend device;
        const Buffer x = to_device(device, {0, 1, 10, 11, 20, 21, 30, 31});
        const Buffer out = device.allocate(4 * sizeof(float));
        OneSequence sequence(4, 16);
        ForwardBatch batch = sequence.batch();
        const int32_t wanted[] = {1, 3};
        batch.output_rows = wanted;
        device.begin(batch);
        device.gather({matrix(x, 4, 2), matrix(out, 2, 2)});
        QCOMPARE(from_device(device, out, 4), (std::vector<float>{10, 11, 30, 31}));
    }

    void blocks_are_copied_and_survive_the_host_data() { kv_types(); }
    void blocks_are_copied_and_survive_the_host() {
        QFETCH(KvType, type);
        ReferenceBackend device({.poison = true});
        const KvCacheSpec spec = {3, 2, 64, 32, 8, 6, type};
        const size_t bytes = device.kv_block_bytes(spec);
        QCOMPARE(bytes, 3 * 2 * 8 * (row_bytes(type, 64) + row_bytes(type, 32)));
        const KvCache cache = device.create_kv_cache(spec);
        std::mt19937 random(seed_);
        std::vector<std::vector<std::byte>> contents(6, std::vector<std::byte>(bytes));
        for (int32_t block = 0; block < 6; ++block) {
            for (std::byte& byte : contents[static_cast<size_t>(block)])
                byte = static_cast<std::byte>(random());
            block_to_device(device, cache, block, contents[static_cast<size_t>(block)]);
        }
        const BlockCopy copies[] = {{0, 4}, {2, 1}, {0, 5}};
        device.copy_kv_blocks(cache, copies);
        const size_t expected[] = {0, 2, 2, 3, 0, 0};
        for (int32_t block = 0; block < 6; ++block)
            QVERIFY(block_from_device(device, cache, block, bytes) == contents[expected[block]]);
    }

    // What is called later sees what was called before, though nothing runs until somebody waits.
    void operations_run_in_order_when_somebody_waits() {
        ReferenceBackend device({.poison = true});
        device.set_profiling(true);
        const std::vector<float> doubling = {2};
        const Weight weight = load_f32(device, doubling, 1);
        const Buffer a = to_device(device, {1});
        const Buffer b = device.allocate(sizeof(float));
        for (int i = 0; i < 5; ++i) {
            device.linear({.x = matrix(a, 1, 1), .weight = weight, .out = matrix(b, 1, 1)});
            device.linear({.x = matrix(b, 1, 1), .weight = weight, .out = matrix(a, 1, 1)});
        }
        QCOMPARE(device.take_profile().matmul_ns, uint64_t{0});
        device.synchronize();
        QVERIFY(device.take_profile().matmul_ns > 0);
        QCOMPARE(device.take_profile().matmul_ns, uint64_t{0});
        QCOMPARE(from_device(device, a, 1), std::vector<float>{1024});
    }

    void the_arrays_of_a_batch_are_copied() {
        ReferenceBackend device;
        const std::vector<float> table = {5, 6, 7};
        const Weight weight = load_f32(device, table, 1);
        const Buffer out = device.allocate(2 * sizeof(float));
        {
            OneSequence sequence(2, 16);
            sequence.numbers = {1, 2};
            sequence.span.first_position = 1;
            device.begin(sequence.batch());
            device.embed({weight, matrix(out, 2, 1)});
            sequence.numbers = {0, 0};
        }
        QCOMPARE(from_device(device, out, 2), (std::vector<float>{6, 7}));
    }

    void time_is_booked_to_the_family_that_took_it() {
        ReferenceBackend device;
        const KvCache cache = device.create_kv_cache({1, 1, 64, 64, 16, 1, KvType::f32});
        std::mt19937 random(seed_);
        const Buffer qkv = to_device(device, random_floats(16 * 192, random));
        const Buffer out = device.allocate(16 * 64 * sizeof(float));
        const Fused parts(qkv, 16, 1, 1, 64, 64);
        OneSequence sequence(16, 16);
        device.begin(sequence.batch());
        device.rope_store({.q = parts.q, .k = parts.k, .v = parts.v, .cache = cache, .heads = 1});
        device.synchronize();
        device.set_profiling(true);
        device.attention(
            {.q = parts.q, .out = matrix(out, 16, 64), .cache = cache, .heads = 1, .scale = 1.0f});
        device.synchronize();
        const KernelProfile profile = device.take_profile();
        QVERIFY(profile.attention_ns > 0);
        QCOMPARE(profile.matmul_ns + profile.norm_ns + profile.other_ns, uint64_t{0});
    }

    void poisoned_memory_is_not_a_number() {
        ReferenceBackend device({.poison = true});
        for (const float value : from_device(device, device.allocate(64), 16))
            QVERIFY(std::isnan(value));
        for (const KvType type : {KvType::f32, KvType::f16, KvType::int8, KvType::int4}) {
            const KvCacheSpec spec = {1, 1, 32, 32, 1, 1, type};
            const std::vector<std::byte> block =
                block_from_device(device, device.create_kv_cache(spec), 0, device.kv_block_bytes(spec));
            std::vector<float> row(32);
            decode_kv_row(type, block.data(), row.data(), 32);
            for (const float value : row)
                QVERIFY(std::isnan(value));
        }
    }

    void memory_that_is_not_there_is_an_answer_with_numbers() {
        ReferenceBackend device({.memory_bytes = 4 << 20});
        QCOMPARE(device.device().memory_bytes, size_t{4 << 20});
        const Buffer half = device.allocate(2 << 20);
        try {
            device.allocate(3 << 20);
            QFAIL("3 MiB fit into 2 MiB");
        } catch (const OutOfMemory& error) {
            const std::string text = error.what();
            for (const char* number : {" 3 MiB", " 2 MiB", " 4 MiB"})
                QVERIFY2(text.find(number) != std::string::npos, text.c_str());
        }
        QVERIFY_EXCEPTION_THROWN(device.create_kv_cache({8, 8, 128, 128, 16, 1000, KvType::f32}),
                                 OutOfMemory);
        QVERIFY_EXCEPTION_THROWN(
            device.create_kv_cache({1 << 20, 1 << 8, 1 << 10, 1 << 10, 16, 1 << 30, KvType::f32}),
            OutOfMemory);
        device.release(half);
        device.release(device.allocate(4 << 20));
        device.release(device.allocate(4 << 20)); // what was released is free again

        ReferenceBackend unlimited;
        QVERIFY_EXCEPTION_THROWN(unlimited.allocate(std::numeric_limits<size_t>::max()), OutOfMemory);
    }

    void misuse_is_refused_with_the_operation_and_the_value() {
        ReferenceBackend device;
        const std::vector<float> weights(6, 1.0f);
        const Weight weight = load_f32(device, weights, 3);
        const Buffer small = device.allocate(2 * sizeof(float));
        const Buffer large = device.allocate(1024);
        const KvCache cache = device.create_kv_cache({2, 1, 4, 4, 4, 2, KvType::f16});
        std::vector<std::byte> bytes(16);

        QVERIFY(refuses([&] { device.embed({weight, matrix(large, 3, 3)}); }, "begin()"));
        const auto linear = [&](const View& x, const View& out) {
            device.linear({.x = x, .weight = weight, .out = out});
        };
        QVERIFY(refuses([&] { linear(matrix(small, 1, 2), matrix(large, 1, 2)); }, "1 × 2, not 1 × 3"));
        QVERIFY(refuses([&] { linear(matrix(small, 1, 3), matrix(large, 1, 2)); }, "buffer of 2 elements"));
        QVERIFY(refuses([&] { linear(matrix(large, 1, 3), matrix({}, 1, 2)); }, "linear's out"));
        QVERIFY(refuses([&] { linear(matrix(large, 2, 3), matrix(large, 2, 2)); }, "elements that it reads"));
        QVERIFY(refuses([&] { device.upload(small, 1, std::span(bytes).first(8)); }, "8 bytes at offset 1"));
        QVERIFY(refuses([&] { device.download(small, 9, bytes); }, "offset 9"));
        device.release(small);
        QVERIFY(refuses([&] { device.release(small); }, "no buffer"));
        QVERIFY(refuses([&] { device.download(small, 0, bytes); }, "no buffer"));
        QVERIFY(refuses([&] { device.weight_bytes({small.id}); }, "no weight"));

        const WeightPart uneven[] = {{TensorType::F32, 1, 3, bytes.data()},
                                     {TensorType::F32, 1, 4, bytes.data()}};
        QVERIFY(refuses([&] { device.load_weight(uneven); }, "3 and 4"));
        const WeightPart cut = {TensorType::Q4_0, 1, 48, bytes.data()};
        QVERIFY(refuses([&] { device.load_weight({&cut, 1}); }, "Q4_0"));

        OneSequence sequence(3, 4);
        device.begin(sequence.batch());
        QVERIFY(refuses([&] { device.embed({weight, matrix(large, 3, 3)}); }, "Token 2"));
        const Fused parts(large, 3, 1, 1, 4, 4);
        RopeStoreOp store{.q = parts.q, .k = parts.k, .v = parts.v, .cache = cache, .layer = 2, .heads = 1};
        QVERIFY(refuses([&] { device.rope_store(store); }, "Layer 2"));
        store.layer = 0;
        const AttentionOp attention{
            .q = parts.q, .out = matrix(device.allocate(1024), 3, 4), .cache = cache, .heads = 1};
        sequence.numbers = {0, 1, 8};
        QVERIFY(refuses([&] { device.begin(sequence.batch()); }, "row 2"));
        sequence.numbers = {0, 1, 2};
        sequence.kv_slots = {0, 1, 8};
        device.begin(sequence.batch());
        QVERIFY(refuses([&] { device.rope_store(store); }, "Slot 8"));
        QVERIFY(refuses([&] { device.attention(attention); }, "slot 2"));
        sequence.kv_slots = {0, 1, 2};
        sequence.blocks = {2};
        device.begin(sequence.batch());
        QVERIFY(refuses([&] { device.attention(attention); }, "Block 2"));
        sequence.blocks = {};
        device.begin(sequence.batch());
        QVERIFY(refuses([&] { device.attention(attention); }, "needs 1 blocks"));

        const BlockCopy chained[] = {{0, 1}, {1, 0}};
        QVERIFY(refuses([&] { device.copy_kv_blocks(cache, chained); }, "two copies"));
        const BlockCopy outside = {0, 2};
        QVERIFY(refuses([&] { device.copy_kv_blocks(cache, {&outside, 1}); }, "Block 2"));
        const HostMemory host = device.allocate_host(16);
        const BlockTransfer transfer = {0, 0};
        QVERIFY(refuses([&] { device.copy_kv_blocks_out(cache, {&transfer, 1}, host); }, "of 16 bytes"));
    }

private:
    static void kv_types() {
        QTest::addColumn<KvType>("type");
        QTest::addColumn<float>("tolerance");
        QTest::newRow("f32") << KvType::f32 << 2e-6f;
        QTest::newRow("f16") << KvType::f16 << 4e-3f;
        QTest::newRow("int8") << KvType::int8 << 0.06f;
        QTest::newRow("int4") << KvType::int4 << 0.6f;
    }

    static void round_trip(KvType type, float* row, size_t elements) {
        std::vector<std::byte> bytes(row_bytes(type, elements));
        encode_kv_row(type, row, bytes.data(), elements);
        decode_kv_row(type, bytes.data(), row, elements);
    }

    static void round_key(KvType type, float* key, size_t elements) {
        if (type == KvType::int4)
            rotate(key, elements);
        round_trip(type, key, elements);
        if (type == KvType::int4)
            rotate(key, elements);
    }

    /// One head of softmax attention over tokens 0 … position of contiguous rows.
    static std::vector<float> plain_attention(const std::vector<float>& rows, size_t width, int32_t position,
                                              int head, int heads, int kv_heads, int key_length,
                                              int value_length, double scale) {
        const int kv_head = head / (heads / kv_heads);
        const auto at = [&](int32_t token, int column) {
            return static_cast<double>(
                rows[static_cast<size_t>(token) * width + static_cast<size_t>(column)]);
        };
        double total = 0.0;
        std::vector<double> sums(static_cast<size_t>(value_length));
        for (int32_t token = 0; token <= position; ++token) {
            double score = 0.0;
            for (int i = 0; i < key_length; ++i)
                score += at(position, head * key_length + i) * at(token, (heads + kv_head) * key_length + i);
            const double weight = std::exp(score * scale);
            total += weight;
            for (int i = 0; i < value_length; ++i)
                sums[static_cast<size_t>(i)] +=
                    weight * at(token, (heads + kv_heads) * key_length + kv_head * value_length + i);
        }
        std::vector<float> out;
        for (const double sum : sums)
            out.push_back(static_cast<float>(sum / total));
        return out;
    }

    unsigned seed_ = 0;
};

QTEST_GUILESS_MAIN(TestReferenceBackend)
#include "tst_reference_backend.moc"
