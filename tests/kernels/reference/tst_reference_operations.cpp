// Every operation of the reference back end, with every option, against numpy (operation_cases.h): in views
// that lie anywhere in larger buffers, sequences whole and in pieces, and in all types of elements.
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest/support.h"
#include "tests/kernels/device_floats.h"
#include "tests/kernels/reference/operation_cases.h"

#include <QtTest>

#include <cmath>
#include <numeric>
#include <random>

using namespace orrery;
using namespace orrery::kernels;
using selftest::BlockTables;
using selftest::Floats;
using selftest::Placed;

namespace {

bool near(const Floats& got, const Floats& expected, float tolerance = 1e-5f) {
    if (got.size() != expected.size()) {
        qWarning("%zu elements, not %zu", got.size(), expected.size());
        return false;
    }
    for (size_t i = 0; i < got.size(); ++i)
        if (!(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0f, std::abs(expected[i])))) {
            qWarning("element %zu: %g, not %g", i, static_cast<double>(got[i]),
                     static_cast<double>(expected[i]));
            return false;
        }
    return true;
}

float rounded(float value, ElementType type) {
    switch (type) {
    case ElementType::f32:
        return value;
    case ElementType::bf16:
        return bf16_to_f32(f32_to_bf16(value));
    case ElementType::f16:
        return f16_to_f32(f32_to_f16(value));
    }
    return value;
}

Floats rounded(Floats values, ElementType type) {
    for (float& value : values)
        value = rounded(value, type);
    return values;
}

/// Some rows of a sequence's matrix of `width` columns.
Floats cut(const Floats& values, int first, int rows, int64_t width) {
    const auto begin = values.begin() + first * width;
    return {begin, begin + rows * width};
}

/// A batch of one sequence's rows [first, first + rows) between two rows of padding, in the first blocks and
/// state slot 0.
struct Piece {
    Piece(int first, int rows, int block_size) : span{1, rows, first, 0} {
        positions.assign(static_cast<size_t>(rows) + 2, 0);
        std::iota(positions.begin() + 1, positions.end() - 1, first);
        ids.resize(positions.size());
        tables.kv_slots.assign(positions.size(), -1);
        std::copy(positions.begin() + 1, positions.end() - 1, tables.kv_slots.begin() + 1);
        std::vector<int32_t> blocks(static_cast<size_t>((first + rows + block_size - 1) / block_size));
        std::iota(blocks.begin(), blocks.end(), 0);
        tables.add(blocks);
    }
    void begin(Backend& device) {
        const BlockLayout layout = tables.layout();
        device.begin({ids, positions, {&span, 1}, {&layout, 1}, {}, snapshots});
    }
    int64_t rows() const { return static_cast<int64_t>(positions.size()); }
    /// The rows of the sequence, between two of zeros.
    Floats pad(const Floats& sequence, int64_t width) const {
        Floats rows = cut(sequence, span.first_position, span.rows, width);
        rows.insert(rows.begin(), static_cast<size_t>(width), 0.0f);
        rows.insert(rows.end(), static_cast<size_t>(width), 0.0f);
        return rows;
    }
    /// Takes the rows of padding away; they have to be zeros.
    Floats unpad(const Floats& rows, int64_t width) const {
        for (int64_t i = 0; i < width; ++i)
            if (rows[static_cast<size_t>(i)] != 0.0f ||
                rows[rows.size() - 1 - static_cast<size_t>(i)] != 0.0f)
                return {};
        return {rows.begin() + width, rows.end() - width};
    }

    Span span;
    std::vector<int32_t> ids, positions;
    BlockTables tables;
    std::vector<StateSnapshot> snapshots;
};

template <typename Case>
void add_rows(const std::vector<Case>& table) {
    QTest::addColumn<int>("index");
    for (size_t i = 0; i < table.size(); ++i)
        QTest::newRow(table[i].name) << static_cast<int>(i);
}

template <typename Case>
const Case& fetch(const std::vector<Case>& table) {
    QFETCH(int, index);
    return table[static_cast<size_t>(index)];
}

} // namespace

class TestReferenceOperations : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        seed_ = std::random_device()();
        random_ = selftest::Random(seed_);
        qInfo("seed %u", seed_);
    }

    void norm_data() { add_rows(test::cases::norms); }
    void norm() {
        const test::cases::NormCase& c = fetch(test::cases::norms);
        const auto run = [&](ElementType inputs, ElementType type, Floats& x_after) {
            const auto place = [&](const Floats& values) {
                return std::make_unique<Placed>(device_, random_, c.rows, c.columns, rounded(values, inputs),
                                                type);
            };
            const auto x = place(c.x), add = place(c.add), gate = place(c.gate), out = place(c.before);
            device_.norm({.x = *x,
                          .out = *out,
                          .norm = {c.kind, buffer(c.weight), buffer(c.bias), 1e-5f, c.weight_offset},
                          .groups = c.groups,
                          .weight_shared = c.weight_shared,
                          .add = c.add.empty() ? View() : *add,
                          .add_scale = c.add_scale,
                          .scale = c.scale,
                          .accumulate = c.accumulate,
                          .gate = c.gate.empty() ? View() : *gate,
                          .gate_order = c.gate_order});
            x_after = x->download();
            return out->download();
        };
        Floats x_after;
        QVERIFY(near(run(ElementType::f32, ElementType::f32, x_after), c.out));
        QVERIFY(near(x_after, c.x_after.empty() ? c.x : c.x_after));
        // In other types, the same numbers, rounded once. (A sum is rounded before its norm is taken.)
        for (const ElementType type : {ElementType::bf16, ElementType::f16})
            if (c.add.empty()) {
                const Floats exact = run(type, ElementType::f32, x_after);
                QCOMPARE(run(type, type, x_after), rounded(exact, type));
            }
    }

    void norm_in_place() {
        Placed x(device_, random_, 3, 6, random_.normal(18));
        Placed out(device_, random_, 3, 6);
        const Norm norm = {NormKind::rms, buffer(random_.normal(6))};
        device_.norm({.x = x, .out = out, .norm = norm});
        device_.norm({.x = x, .out = x, .norm = norm});
        QCOMPARE(x.download(), out.download());
    }

    void linear_data() { add_rows(test::cases::linears); }
    void linear() {
        const test::cases::LinearCase& c = fetch(test::cases::linears);
        const Weight weight = test::load_f32(device_, c.weight, c.columns);
        const int64_t height = static_cast<int64_t>(c.weight.size()) / c.columns / c.groups;
        const auto run = [&](ElementType inputs, ElementType type) {
            const Placed x(device_, random_, c.rows, static_cast<int64_t>(c.x.size()) / c.rows,
                           rounded(c.x, inputs), type);
            const Placed out(device_, random_, c.rows, height, rounded(c.before, inputs), type);
            device_.linear({.x = x,
                            .weight = weight,
                            .out = out,
                            .norm = {c.norm, buffer(c.norm_weight), buffer(c.norm_bias)},
                            .activation = c.activation,
                            .bias = buffer(c.bias),
                            .scale = c.scale,
                            .accumulate = c.accumulate,
                            .groups = c.groups});
            return out.download();
        };
        QVERIFY(near(run(ElementType::f32, ElementType::f32), c.out));
        for (const ElementType type : {ElementType::bf16, ElementType::f16})
            QCOMPARE(run(type, type), rounded(run(type, ElementType::f32), type));
    }

    // Parts whose rows lie apart, and some columns of a wider matrix.
    void weights_may_be_slices() {
        const Floats wide = random_.normal(6 * 8);
        const auto* const bytes = reinterpret_cast<const std::byte*>(wide.data());
        const WeightPart parts[] = {{TensorType::F32, 3, 4, bytes + 8, 16 * sizeof(float)},
                                    {TensorType::F32, 2, 4, bytes + 40, 8 * sizeof(float)}};
        const Weight weight = device_.load_weight(parts);
        QCOMPARE(device_.weight_bytes(weight), size_t{5 * 4 * 4});
        const Placed x(device_, random_, 1, 4, {1, 10, 100, 1000});
        const Placed out(device_, random_, 1, 5);
        device_.linear({.x = x, .weight = weight, .out = out});
        Floats expected;
        for (const size_t first : {2, 18, 34, 10, 18})
            expected.push_back(wide[first] + 10 * wide[first + 1] + 100 * wide[first + 2] +
                               1000 * wide[first + 3]);
        QVERIFY(near(out.download(), expected));
    }

    void learned_positions_are_added() {
        const Floats tokens = random_.normal(5 * 3), positions = random_.normal(6 * 3);
        Piece piece(2, 2, 4);
        piece.ids = {4, 1, 0, 2};
        piece.begin(device_);
        const Placed out(device_, random_, piece.rows(), 3);
        device_.embed({.table = test::load_f32(device_, tokens, 3),
                       .out = out,
                       .scale = 2.0f,
                       .positions = test::load_f32(device_, positions, 3),
                       .position_offset = 2});
        Floats expected;
        for (size_t row = 0; row < 4; ++row)
            for (size_t i = 0; i < 3; ++i)
                expected.push_back(tokens[static_cast<size_t>(piece.ids[row]) * 3 + i] * 2.0f +
                                   positions[static_cast<size_t>(piece.positions[row] + 2) * 3 + i]);
        QVERIFY(near(out.download(), expected));
    }

    void gate_data() { add_rows(test::cases::gates); }
    void gate() {
        const test::cases::GateCase& c = fetch(test::cases::gates);
        const Placed gate(device_, random_, 3, c.gate_columns, c.gate);
        const Placed x(device_, random_, 3, c.columns, c.x);
        const Placed out(device_, random_, 3, c.columns);
        device_.gate({gate, x, out, c.activation});
        QVERIFY(near(out.download(), c.out));
        device_.gate({gate, x, x, c.activation});
        QCOMPARE(x.download(), out.download());
        if (c.gate_columns == c.columns) {
            const Placed again(device_, random_, 3, c.columns, c.x);
            device_.gate({gate, again, gate, c.activation});
            QCOMPARE(gate.download(), out.download());
        }
    }

    void add_scales_and_accumulates() {
        const Placed x(device_, random_, 2, 2, {1, 2, 3, 4});
        const Placed out(device_, random_, 2, 2, {10, 20, 30, 40});
        device_.add({.x = x, .out = out, .scale = 0.5f});
        QCOMPARE(out.download(), (Floats{10.5f, 21, 31.5f, 42}));
        device_.add({.x = x, .out = out, .scale = 2.0f, .accumulate = false});
        QCOMPARE(out.download(), (Floats{2, 4, 6, 8}));
    }

    void soft_cap_bounds_and_scales() {
        const Placed x(device_, random_, 2, 5, test::cases::soft_capped);
        device_.soft_cap({x, 0.5f, 30.0f});
        QVERIFY(near(x.download(), test::cases::soft_cap_30));
        const Placed y(device_, random_, 1, 3, {1, -2, 1000});
        device_.soft_cap({y, 0.5f, 0.0f});
        QCOMPARE(y.download(), (Floats{0.5f, -1, 500}));
    }

    void rope_store_data() { add_rows(test::cases::ropes); }
    void rope_store() {
        const test::cases::RopeCase& c = fetch(test::cases::ropes);
        const KvCache cache = device_.create_kv_cache({.layers = 2,
                                                       .kv_heads = c.kv_heads,
                                                       .key_length = c.key_length,
                                                       .value_length = c.value_length,
                                                       .block_size = 4,
                                                       .blocks = 1,
                                                       .type = KvType::f32,
                                                       .value_in_key = c.value_in_key});
        Piece piece(0, 3, 4);
        piece.begin(device_);
        const auto place = [&](const Floats& values, int width) {
            return std::make_unique<Placed>(device_, random_, piece.rows(), width,
                                            values.empty() ? Floats() : piece.pad(values, width));
        };
        const auto q = place(c.q, c.heads * c.key_length), k = place(c.k, c.kv_heads * c.key_length),
                   v = place(c.v, c.kv_heads * c.value_length);
        device_.rope_store({.q = *q,
                            .k = c.k.empty() ? View() : *k,
                            .v = c.v.empty() ? View() : *v,
                            .cache = cache,
                            .layer = 1,
                            .heads = c.heads,
                            .q_norm = {c.norm, buffer(c.q_weight)},
                            .k_norm = {c.norm, buffer(c.k_weight)},
                            .v_norm = {c.v_norm ? NormKind::rms : NormKind::none},
                            .norm_after_rope = c.after,
                            .rope = {buffer(c.rope), c.dimensions, c.first, c.style},
                            .query_scale = buffer(c.query_scale)});
        const auto rows = [&](const Placed& placed, int width) {
            const Floats values = placed.download();
            return Floats(values.begin() + width, values.end() - width);
        };
        QVERIFY(near(rows(*q, c.heads * c.key_length), c.q_out));
        if (c.k.empty())
            return;
        QVERIFY(near(rows(*k, c.kv_heads * c.key_length), c.k_out));
        if (!c.v.empty())
            QVERIFY(near(rows(*v, c.kv_heads * c.value_length), c.v_out));

        // Layer 1 of the block: keys [heads, 4 tokens], then values.
        const size_t bytes = device_.kv_block_bytes(
            {2, c.kv_heads, c.key_length, c.value_length, 4, 1, KvType::f32, c.value_in_key});
        const std::vector<std::byte> block = test::block_from_device(device_, cache, 0, bytes);
        Floats floats(bytes / sizeof(float));
        std::memcpy(floats.data(), block.data(), bytes);
        const auto kept = [&](size_t begin, int head, int token, int length) {
            const size_t first = begin + static_cast<size_t>((head * 4 + token) * length);
            return Floats(floats.begin() + static_cast<std::ptrdiff_t>(first),
                          floats.begin() + static_cast<std::ptrdiff_t>(first) + length);
        };
        const size_t keys = floats.size() / 2;
        const size_t values = keys + static_cast<size_t>(4 * c.kv_heads * c.key_length);
        for (int head = 0; head < c.kv_heads; ++head)
            for (int token = 0; token < 3; ++token) {
                const int row = token * c.kv_heads + head;
                QVERIFY(near(kept(keys, head, token, c.key_length), cut(c.k_out, row, 1, c.key_length)));
                if (!c.v.empty())
                    QVERIFY(near(kept(values, head, token, c.value_length),
                                 cut(c.v_out, row, 1, c.value_length)));
            }
    }

    void attention_data() { add_rows(test::cases::attentions); }
    void attention() {
        const test::cases::AttentionCase& c = fetch(test::cases::attentions);
        const int q_width = c.heads * c.key_length, k_width = c.kv_heads * c.key_length,
                  v_width = c.kv_heads * c.value_length, out_width = c.heads * c.value_length;
        for (const int pieces : {1, 2, c.tokens}) {
            const KvCache cache = device_.create_kv_cache({.layers = 1,
                                                           .kv_heads = c.kv_heads,
                                                           .key_length = c.key_length,
                                                           .value_length = c.value_length,
                                                           .block_size = 2,
                                                           .blocks = 8,
                                                           .type = KvType::f32,
                                                           .value_in_key = c.value_in_key});
            Floats result;
            for (int piece_index = 0; piece_index < pieces; ++piece_index) {
                const int first = c.tokens * piece_index / pieces;
                Piece piece(first, c.tokens * (piece_index + 1) / pieces - first, 2);
                // Blocks that the window has left behind may belong to others by now.
                if (c.window > 0)
                    for (int block = 0;
                         2 * block + 1 < (c.chunked ? first / c.window * c.window : first - c.window + 1);
                         ++block)
                        piece.tables.block_tables[static_cast<size_t>(block)] = -1;
                piece.begin(device_);
                const Placed q(device_, random_, piece.rows(), q_width, piece.pad(c.q, q_width));
                const Placed k(device_, random_, piece.rows(), k_width, piece.pad(c.k, k_width));
                const Placed v(device_, random_, piece.rows(), v_width,
                               c.v.empty() ? Floats() : piece.pad(c.v, v_width));
                const Placed out(device_, random_, piece.rows(), out_width);
                device_.rope_store(
                    {.q = q, .k = k, .v = c.v.empty() ? View() : v, .cache = cache, .heads = c.heads});
                device_.attention({.q = q,
                                   .out = out,
                                   .cache = cache,
                                   .heads = c.heads,
                                   .scale = c.scale,
                                   .soft_cap = c.soft_cap,
                                   .window = c.window,
                                   .chunked = c.chunked,
                                   .sinks = buffer(c.sinks),
                                   .alibi = buffer(c.alibi)});
                const Floats rows = piece.unpad(out.download(), out_width);
                result.insert(result.end(), rows.begin(), rows.end());
            }
            QVERIFY(near(result, c.out));
            device_.release(cache);
        }
    }

    void route_data() { add_rows(test::cases::routes); }
    void route() {
        const test::cases::RouteCase& c = fetch(test::cases::routes);
        const int64_t rows = static_cast<int64_t>(c.logits.size()) / c.experts;
        const Placed logits(device_, random_, rows, c.experts, c.logits);
        const Buffer experts = device_.allocate(c.chosen.size() * sizeof(int32_t));
        const Buffer weights = device_.allocate(c.chosen.size() * sizeof(float));
        device_.route({.logits = logits,
                       .experts = experts,
                       .weights = weights,
                       .top_k = c.top_k,
                       .score = c.score,
                       .bias = buffer(c.bias),
                       .groups = c.groups,
                       .top_groups = c.top_groups,
                       .group_score = c.group_score,
                       .normalize = c.normalize,
                       .sum_floor = c.sum_floor,
                       .scale = c.scale});
        std::vector<int32_t> chosen(c.chosen.size());
        device_.download(experts, 0, std::as_writable_bytes(std::span(chosen)));
        QCOMPARE(chosen, c.chosen);
        QVERIFY(near(test::from_device(device_, weights, chosen.size()), c.weights));
    }

    void equal_scores_go_to_the_smaller_index() {
        const Placed logits(device_, random_, 1, 6, {1, 2, 2, 1, 2, 0});
        const Buffer experts = device_.allocate(16), weights = device_.allocate(16);
        device_.route({.logits = logits, .experts = experts, .weights = weights, .top_k = 4});
        std::vector<int32_t> chosen(4);
        device_.download(experts, 0, std::as_writable_bytes(std::span(chosen)));
        QCOMPARE(chosen, (std::vector<int32_t>{1, 2, 4, 0}));
    }

    void expert_linear_data() { add_rows(test::cases::experts); }
    void expert_linear() {
        const test::cases::ExpertCase& c = fetch(test::cases::experts);
        const int64_t slots_in = c.per_slot ? c.rows * c.top_k : c.rows;
        const Placed x(device_, random_, slots_in, static_cast<int64_t>(c.x.size()) / slots_in, c.x);
        const Placed out(device_, random_, c.rows * c.top_k, c.height);
        const ExpertLinearOp op = {.x = x,
                                   .weight = test::load_f32(device_, c.weight, c.columns),
                                   .out = out,
                                   .experts = c.experts,
                                   .top_k = c.top_k,
                                   .experts_of = indices(c.chosen),
                                   .per_slot = c.per_slot,
                                   .activation = c.activation,
                                   .bias = buffer(c.bias),
                                   .input_scale = buffer(c.input_scale)};
        device_.expert_linear(op);
        QVERIFY(near(out.download(), c.out));

        ExpertLinearOp wrong = op;
        std::vector<int32_t> none = c.chosen;
        none.back() = c.experts;
        wrong.experts_of = indices(none);
        device_.expert_linear(wrong);
        QVERIFY_EXCEPTION_THROWN(device_.synchronize(), Error);
    }

    void combine_experts_adds_weighted_results() {
        const Placed x(device_, random_, 6, 4, test::cases::parts);
        const Placed out(device_, random_, 2, 4, Floats(8, 1.0f));
        device_.combine_experts(
            {.x = x, .out = out, .weights = buffer(test::cases::part_weights), .top_k = 3, .scale = 0.5f});
        QVERIFY(near(out.download(), test::cases::combined));
        device_.combine_experts({.x = x, .out = out, .top_k = 3, .accumulate = true});
        Floats expected = test::cases::combined;
        for (size_t i = 0; i < expected.size(); ++i)
            expected[i] += test::cases::summed[i];
        QVERIFY(near(out.download(), expected));
    }

    void convolve_data() { add_rows(test::cases::convolutions); }
    void convolve() {
        const test::cases::ConvolveCase& c = fetch(test::cases::convolutions);
        const StateCacheSpec spec = {
            .layers = 2, .channels = c.channels, .kernel = c.kernel, .slot_count = 3};
        over_pieces(c.tokens, spec, c.out, c.channels, [&](const Piece& piece, StateCache state, View out) {
            const Placed x(device_, random_, piece.rows(), c.channels, piece.pad(c.x, c.channels));
            device_.convolve({.x = x,
                              .out = out,
                              .weight = buffer(c.weight),
                              .bias = buffer(c.bias),
                              .activation = {.kind = c.activation},
                              .state = state,
                              .layer = 1});
            device_.synchronize();
        });
    }

    void ssm_scan_data() { add_rows(test::cases::scans); }
    void ssm_scan() {
        const test::cases::SsmCase& c = fetch(test::cases::scans);
        const StateCacheSpec spec = {
            .layers = 2, .heads = c.heads, .rows = c.head_length, .columns = c.state_length, .slot_count = 3};
        const int width = c.heads * c.head_length;
        over_pieces(c.tokens, spec, c.out, width, [&](const Piece& piece, StateCache state, View out) {
            const auto place = [&](const Floats& values, int columns) {
                return std::make_unique<Placed>(device_, random_, piece.rows(), columns,
                                                piece.pad(values, columns));
            };
            const auto x = place(c.x, width), b = place(c.b, c.groups * c.state_length),
                       into = place(c.c, c.groups * c.state_length), dt = place(c.dt, c.heads);
            device_.ssm_scan({.x = *x,
                              .b = *b,
                              .c = *into,
                              .dt = *dt,
                              .out = out,
                              .a = buffer(c.a),
                              .d = buffer(c.d),
                              .dt_bias = buffer(c.dt_bias),
                              .groups = c.groups,
                              .dt_min = c.dt_min,
                              .dt_max = c.dt_max,
                              .state = state,
                              .layer = 1});
            device_.synchronize();
        });
    }

    void delta_rule_data() { add_rows(test::cases::deltas); }
    void delta_rule() {
        const test::cases::DeltaCase& c = fetch(test::cases::deltas);
        const StateCacheSpec spec = {
            .layers = 2, .heads = c.heads, .rows = c.key_length, .columns = c.value_length, .slot_count = 3};
        const int key_width = c.key_heads * c.key_length, width = c.heads * c.value_length;
        over_pieces(c.tokens, spec, c.out, width, [&](const Piece& piece, StateCache state, View out) {
            const auto place = [&](const Floats& values, int columns) {
                return std::make_unique<Placed>(device_, random_, piece.rows(), columns,
                                                piece.pad(values, columns));
            };
            const auto q = place(c.q, key_width), k = place(c.k, key_width), v = place(c.v, width),
                       decay = place(c.decay, c.heads), beta = place(c.beta, c.heads);
            device_.delta_rule({.q = *q,
                                .k = *k,
                                .v = *v,
                                .decay = *decay,
                                .beta = *beta,
                                .out = out,
                                .a = buffer(c.a),
                                .dt_bias = buffer(c.dt_bias),
                                .key_heads = c.key_heads,
                                .state = state,
                                .layer = 1});
            device_.synchronize();
        });
    }

    void slots_and_snapshots_are_checked() {
        const StateCacheSpec spec = {.layers = 1, .channels = 2, .kernel = 2, .slot_count = 2};
        const StateCache state = device_.create_state_cache(spec);
        QCOMPARE(device_.state_slot_bytes(spec), size_t{2 * 4});
        const Placed x(device_, random_, 4, 2), out(device_, random_, 4, 2);
        ConvolveOp op = {.x = x, .out = out, .weight = buffer(Floats(4)), .activation = {}, .state = state};
        const auto refused = [&](int slot, std::vector<StateSnapshot> snapshots) {
            Piece piece(0, 2, 4);
            piece.span.state_slot = slot;
            piece.snapshots = std::move(snapshots);
            try {
                piece.begin(device_);
                device_.convolve(op);
            } catch (const Error&) {
                return true;
            }
            return false;
        };
        QVERIFY(!refused(1, {{2, 0}}));
        QVERIFY(refused(-1, {}));
        QVERIFY(refused(2, {}));
        QVERIFY(refused(1, {{2, 1}}));         // the span's own
        QVERIFY(refused(1, {{1, 0}, {2, 0}})); // one slot, two snapshots
        QVERIFY(refused(1, {{0, 0}}));         // padding
        QVERIFY(refused(1, {{4, 0}}));
        op.layer = 1;
        QVERIFY(refused(1, {}));
    }

    void views_are_checked() {
        const Buffer small = device_.allocate(12 * sizeof(float));
        const auto refused = [&](const View& x, const View& out) {
            try {
                device_.add({.x = x, .out = out});
            } catch (const Error&) {
                return true;
            }
            return false;
        };
        const Buffer other = device_.allocate(64 * sizeof(float));
        const View out = matrix(other, 3, 4);
        QVERIFY(!refused(matrix(small, 3, 4), out));
        QVERIFY(refused({small, 1, 3, 4, 4}, out));                      // one element too far
        QVERIFY(refused({small, -1, 3, 4, 4}, out));                     // before the buffer
        QVERIFY(refused({small, 0, 3, 4, 3}, out));                      // rows in rows
        QVERIFY(refused({small, 0, 3, 4, 5}, out));                      // a stride too long
        QVERIFY(refused({small, 0, 3, 4, int64_t{1} << 62}, out));       // one that overflows
        QVERIFY(refused({small, int64_t{1} << 62, 3, 4, 4}, out));       // an offset that does
        QVERIFY(refused({small, 0, 2, 4, 4}, out));                      // fewer rows
        QVERIFY(!refused({small, 12, 3, 4, 4, ElementType::bf16}, out)); // twice as many elements
        QVERIFY(refused({small, 13, 3, 4, 4, ElementType::bf16}, out));
        // Parts of one matrix beside each other are apart, parts that share a column are not.
        QVERIFY(!refused({other, 0, 8, 4, 8}, {other, 4, 8, 4, 8}));
        QVERIFY(refused({other, 0, 8, 4, 8}, {other, 3, 8, 4, 8}));
        QVERIFY(refused({other, 0, 2, 4, 4}, {other, 6, 2, 4, 4}));
        QVERIFY(refused({other, 0, 4, 2, 2}, {other, 14, 4, 2, 2, ElementType::bf16}));
    }

    void what_is_shared_is_read_and_not_written() {
        ReferenceBackend parent({.memory_bytes = 1000});
        const Floats identity = {1, 0, 0, 1};
        const Weight weight = test::load_f32(parent, identity, 2);
        const Buffer bias = test::to_device(parent, {10, 20});
        const std::unique_ptr<Backend> child = parent.share();
        const Buffer x = test::to_device(*child, {1, 2}), out = child->allocate(8);
        QVERIFY_EXCEPTION_THROWN(child->allocate(980), OutOfMemory); // of one device
        QVERIFY(x.id != bias.id && out.id != bias.id);
        child->linear({.x = matrix(x, 1, 2), .weight = weight, .out = matrix(out, 1, 2), .bias = bias});
        QCOMPARE(test::from_device(*child, out, 2), (Floats{11, 22}));
        const LinearOp onto = {.x = matrix(x, 1, 2), .weight = weight, .out = matrix(bias, 1, 2)};
        QVERIFY_EXCEPTION_THROWN(child->linear(onto), Error);
        QVERIFY_EXCEPTION_THROWN(child->upload(bias, 0, std::as_bytes(std::span(identity).first(1))), Error);
        QVERIFY_EXCEPTION_THROWN(child->release(bias), Error);
        QVERIFY_EXCEPTION_THROWN(child->release(weight), Error);
        QVERIFY_EXCEPTION_THROWN(parent.release(weight), Error);
        QVERIFY_EXCEPTION_THROWN(parent.download(x, 0, {}), Error); // not the other way
    }

    void a_fence_waits_for_what_came_before_alone() {
        const KvCacheSpec spec = {1, 1, 4, 4, 1, 2, KvType::f32};
        const KvCache cache = device_.create_kv_cache(spec);
        const size_t bytes = device_.kv_block_bytes(spec);
        const HostMemory host = device_.allocate_host(2 * bytes);
        std::fill_n(host.bytes, bytes, std::byte{7});
        const BlockTransfer in = {1, 0}, out = {1, bytes};
        device_.copy_kv_blocks_in(cache, {&in, 1}, host);
        device_.copy_kv_blocks_out(cache, {&out, 1}, host);
        const Fence fence = device_.fence();
        device_.copy_kv_blocks_in(cache, {&out, 1}, host);
        device_.wait(fence);
        QVERIFY(std::equal(host.bytes, host.bytes + bytes, host.bytes + bytes));
        std::fill_n(host.bytes + bytes, bytes, std::byte{9}); // the third copy has not run yet
        device_.synchronize();
        QCOMPARE(test::block_from_device(device_, cache, 1, bytes), std::vector(bytes, std::byte{9}));
        device_.wait(fence);
        QVERIFY_EXCEPTION_THROWN(device_.wait({fence.value + 1000}), Error);
        device_.release(host);
        QVERIFY_EXCEPTION_THROWN(device_.copy_kv_blocks_in(cache, {&in, 1}, host), Error);
    }

private:
    /// Runs a recurrence over a sequence cut into one, two and as many pieces as it has tokens, with padding
    /// around, and again from a snapshot; the results are those of numpy.
    template <typename Run>
    void over_pieces(int tokens, const StateCacheSpec& spec, const Floats& expected, int width, Run run) {
        const int whole = tokens, half = tokens / 2;
        for (const int pieces : {1, 2, whole}) {
            const StateCache state = device_.create_state_cache(spec);
            Floats result;
            for (int i = 0; i < pieces; ++i) {
                const int first = tokens * i / pieces;
                Piece piece(first, tokens * (i + 1) / pieces - first, 4);
                piece.begin(device_);
                const Placed out(device_, random_, piece.rows(), width);
                run(piece, state, out);
                const Floats rows = piece.unpad(out.download(), width);
                result.insert(result.end(), rows.begin(), rows.end());
            }
            QVERIFY(near(result, expected));
            device_.release(state);
        }
        if (half == 0)
            return;
        // A snapshot in the middle, moved over the host to a third slot, goes on as the sequence did.
        const StateCache state = device_.create_state_cache(spec);
        Piece piece(0, tokens, 4);
        piece.snapshots = {{half, 1}};
        piece.begin(device_);
        const Placed all(device_, random_, piece.rows(), width);
        run(piece, state, all);
        const HostMemory host = device_.allocate_host(device_.state_slot_bytes(spec));
        const BlockTransfer out = {1, 0}, in = {2, 0};
        device_.copy_state_slots_out(state, {&out, 1}, host);
        device_.copy_state_slots_in(state, {&in, 1}, host);
        const BlockCopy copy = {2, 0};
        device_.copy_state_slots(state, {&copy, 1});
        Piece rest(half, tokens - half, 4);
        rest.begin(device_);
        const Placed again(device_, random_, rest.rows(), width);
        run(rest, state, again);
        QCOMPARE(rest.unpad(again.download(), width),
                 cut(piece.unpad(all.download(), width), half, tokens - half, width));
        device_.release(host);
        device_.release(state);
    }

    Buffer buffer(const Floats& values) {
        return values.empty() ? Buffer() : test::to_device(device_, values);
    }
    Buffer indices(const std::vector<int32_t>& values) {
        const Buffer buffer = device_.allocate(values.size() * sizeof(int32_t));
        device_.upload(buffer, 0, std::as_bytes(std::span(values)));
        return buffer;
    }

    unsigned seed_ = 0;
    selftest::Random random_{0};
    ReferenceBackend device_{{.poison = true}};
};

QTEST_GUILESS_MAIN(TestReferenceOperations)
#include "tst_reference_operations.moc"
