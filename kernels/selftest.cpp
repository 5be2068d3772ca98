#include "kernels/selftest.h"

#include "kernels/quant/kv_row.h"
#include "kernels/reference/operations.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace orrery::kernels {

namespace {

// What the formats allow, in the units of SelftestResult::error; the largest of some 10⁴ elements is about
// 4.5 times their root mean square.

/// A device may round activations: not at all for float32 weights; to a float of the weights' kind for F16
/// (2⁻¹² / √3 rms) and BF16 (2⁻⁹ / √3); for all others to 8 bits, where a group's largest magnitude is up to
/// about four times its rms (4 / 127 / √12 = 0.009).
double linear_bound(TensorType type) {
    switch (type) {
    case TensorType::F32:
        return 1e-5;
    case TensorType::F16:
        return 1e-3;
    case TensorType::BF16:
        return 8e-3;
    default:
        return 0.05;
    }
}

/// The cache rounds on both sides alike; a device may keep probabilities in binary16. Where its rotations
/// differ in the last bit, a quant may fall to the other side, which moves a score by up to one step.
double attention_bound(KvType type) {
    switch (type) {
    case KvType::f32:
        return 1e-5;
    case KvType::f16:
        return 2e-3;
    case KvType::int8:
        return 0.01;
    case KvType::int4:
        return 0.1;
    }
    return 0.0;
}

using Floats = std::vector<float>;

class Selftest {
public:
    Selftest(Backend& device, const SelftestOptions& options,
             const std::function<void(const SelftestResult&)>& progress)
        : device_(device),
          reference_({.poison = true}),
          options_(options),
          progress_(progress),
          random_(options.seed) {}

    std::vector<SelftestResult> run();

private:
    /// A buffer that is released with its scope.
    class OnDevice {
    public:
        OnDevice(Backend& backend, size_t count)
            : backend_(backend), buffer_(backend.allocate(std::max<size_t>(count, 1) * sizeof(float))) {}
        OnDevice(Backend& backend, const Floats& values) : OnDevice(backend, values.size()) {
            backend.upload(buffer_, 0, std::as_bytes(std::span(values)));
        }
        OnDevice(const OnDevice&) = delete;
        OnDevice& operator=(const OnDevice&) = delete;
        ~OnDevice() { backend_.release(buffer_); }
        operator Buffer() const { return buffer_; }
        Floats download(size_t count) const {
            Floats values(count);
            backend_.download(buffer_, 0, std::as_writable_bytes(std::span(values)));
            return values;
        }

    private:
        Backend& backend_;
        Buffer buffer_;
    };

    /// A weight or a cache that is released with its scope.
    template <typename Handle>
    class Owned {
    public:
        Owned(Backend& backend, Handle handle) : backend_(backend), handle_(handle) {}
        Owned(const Owned&) = delete;
        Owned& operator=(const Owned&) = delete;
        ~Owned() { backend_.release(handle_); }
        operator Handle() const { return handle_; }

    private:
        Backend& backend_;
        Handle handle_;
    };

    struct LinearCase;
    struct AttentionCase;
    /// Some rows of one sequence that run in one batch.
    struct Piece {
        size_t sequence;
        int32_t first_position;
        int32_t rows;
    };
    using Plan = std::vector<std::vector<Piece>>;
    struct AttentionRun {
        std::vector<Floats> turned; ///< per sequence [tokens, width]: qkv after rope_store
        std::vector<Floats> out;    ///< per sequence [tokens, heads · value_length]
    };

    int number(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
    template <typename T>
    T one_of(std::initializer_list<T> choices) {
        return choices.begin()[number(0, static_cast<int>(choices.size()) - 1)];
    }
    Floats normal_floats(size_t count, float mean = 0.0f, float deviation = 1.0f);
    int64_t random_columns(TensorType type);

    void report(const std::string& operation, const std::string& shape, double error, double bound,
                const std::string& note = {});
    /// Runs `test`, and reports a failure where the device throws.
    void guarded(const std::string& operation, const std::string& shape, const std::function<void()>& test);

    void embed(TensorType type);
    void gather();
    void linear(TensorType type);
    Floats run_linear(Backend& backend, const LinearCase& test, int first, int rows);
    void attention(KvType type, bool long_context);
    AttentionRun run_attention(Backend& backend, KvCache cache, const AttentionCase& test, const Plan& plan);
    void moved_blocks(KvCache cache, const AttentionCase& test, const Floats& out);

    Backend& device_;
    ReferenceBackend reference_;
    SelftestOptions options_;
    const std::function<void(const SelftestResult&)>& progress_;
    std::mt19937 random_;
    std::vector<SelftestResult> results_;
};

double root_mean_square(std::span<const float> values) {
    return std::sqrt(reference::dot(values, values) /
                     static_cast<double>(std::max<size_t>(values.size(), 1)));
}

/// How many elements differ in their bits.
double different_bits(const Floats& a, const Floats& b) {
    double count = 0;
    for (size_t i = 0; i < a.size(); ++i)
        count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
    return count;
}

/// The largest difference of two elements, infinite where one is not a number.
double largest_difference(std::span<const float> got, std::span<const float> expected) {
    double largest = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
        largest =
            std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(largest, difference);
    }
    return largest;
}

std::string text(int64_t value) {
    return std::to_string(value);
}

Floats Selftest::normal_floats(size_t count, float mean, float deviation) {
    std::normal_distribution<float> normal(mean, deviation);
    Floats values(count);
    for (float& value : values)
        value = normal(random_);
    return values;
}

int64_t Selftest::random_columns(TensorType type) {
    const auto block = static_cast<int>(info(type).block_elements);
    return int64_t{block} * number(1, std::max(3, 700 / block));
}

void Selftest::report(const std::string& operation, const std::string& shape, double error, double bound,
                      const std::string& note) {
    results_.push_back({operation, shape, error, bound, note.empty() && error <= bound, note});
    if (progress_)
        progress_(results_.back());
}

void Selftest::guarded(const std::string& operation, const std::string& shape,
                       const std::function<void()>& test) {
    try {
        test();
    } catch (const std::exception& error) {
        report(operation, shape, std::numeric_limits<double>::infinity(), 0.0, error.what());
    }
}

// Embedding and gathering

void Selftest::embed(TensorType type) {
    const int64_t columns = random_columns(type);
    const int64_t vocabulary = number(1, 90);
    const int rows = number(1, 70);
    const float scale = one_of({1.0f, 24.0f});
    const std::vector<std::byte> bytes = random_weights(type, vocabulary, columns, random_);
    const WeightPart part = {type, vocabulary, columns, bytes.data()};
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids)
        id = number(0, static_cast<int>(vocabulary) - 1);
    std::vector<int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);

    const std::string operation = std::string("embed ") + info(type).name;
    const std::string shape = text(rows) + " of " + text(vocabulary) + " × " + text(columns);
    guarded(operation, shape, [&] {
        const auto on = [&](Backend& backend) {
            const Owned table(backend, backend.load_weight({&part, 1}));
            const OnDevice out(backend, ids.size() * static_cast<size_t>(columns));
            const Span span = {0, rows, 0, 0};
            const int32_t block = 0;
            backend.begin({ids, positions, positions, {&span, 1}, {&block, 1}, {}});
            backend.embed({table, out, scale});
            return out.download(ids.size() * static_cast<size_t>(columns));
        };
        const Floats expected = on(reference_);
        report(operation, shape, largest_difference(on(device_), expected) / root_mean_square(expected),
               1e-5);
    });
}

void Selftest::gather() {
    const int rows = number(1, 70);
    const int columns = number(1, 300);
    const Floats x = normal_floats(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<int32_t> wanted;
    Floats expected;
    for (int32_t row = 0; row < rows; ++row)
        if (row + 1 == rows || number(0, 2) == 0) {
            wanted.push_back(row);
            const auto begin = x.begin() + std::ptrdiff_t{row} * columns;
            expected.insert(expected.end(), begin, begin + columns);
        }

    const std::string shape =
        text(static_cast<int64_t>(wanted.size())) + " of " + text(rows) + " × " + text(columns);
    guarded("gather", shape, [&] {
        const OnDevice from(device_, x);
        const OnDevice out(device_, expected.size());
        const Span span = {0, rows, 0, 0};
        const int32_t block = 0;
        device_.begin({positions, positions, positions, {&span, 1}, {&block, 1}, wanted});
        device_.gather({from, out, columns});
        report("gather", shape, different_bits(out.download(expected.size()), expected), 0.0);
    });
}

// Matrix products

struct Selftest::LinearCase {
    std::vector<WeightPart> parts;
    int rows = 0;
    size_t columns = 0;
    size_t out_columns = 0;
    size_t x_columns = 0;
    Prologue prologue = Prologue::none;
    bool accumulate = false;
    Floats x, norm, bias, before; ///< `before`: what the output holds beforehand

    /// One row of x once the prologue has been applied.
    Floats prepared(size_t row) const {
        const std::span from(&x[row * x_columns], x_columns);
        Floats to(columns);
        if (prologue == Prologue::rms_norm)
            reference::rms_norm(from, norm, eps, to);
        else if (prologue == Prologue::silu_gate)
            reference::silu_gate(from.first(columns), from.last(columns), to);
        else
            std::copy(from.begin(), from.end(), to.begin());
        return to;
    }
    static constexpr float eps = 1e-5f;
};

Floats Selftest::run_linear(Backend& backend, const LinearCase& test, int first, int rows) {
    const auto cut = [&](const Floats& values, size_t width) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(first) * width);
        return Floats(begin, begin + static_cast<std::ptrdiff_t>(static_cast<size_t>(rows) * width));
    };
    const Owned weight(backend, backend.load_weight(test.parts));
    const OnDevice x(backend, cut(test.x, test.x_columns));
    const OnDevice out(backend, cut(test.before, test.out_columns));
    const OnDevice norm(backend, test.norm);
    const OnDevice bias(backend, test.bias);
    LinearOp op{.x = x, .weight = weight, .out = out, .rows = rows, .prologue = test.prologue};
    op.eps = LinearCase::eps;
    if (test.prologue == Prologue::rms_norm)
        op.norm = norm;
    if (!test.bias.empty())
        op.bias = bias;
    op.accumulate = test.accumulate;
    backend.linear(op);
    return out.download(static_cast<size_t>(rows) * test.out_columns);
}

void Selftest::linear(TensorType type) {
    LinearCase test;
    const int64_t columns = random_columns(type);
    // Sometimes a second part in another format that has rows of this width.
    std::vector<TensorType> formats = {type};
    const TensorType other = all_tensor_types()[static_cast<size_t>(number(0, 25))];
    if (number(0, 1) && columns % info(other).block_elements == 0)
        formats.push_back(other);
    std::vector<std::vector<std::byte>> bytes;
    Floats weight_norms;
    double bound = 0.0;
    for (const TensorType format : formats) {
        const int64_t rows = one_of({number(1, 20), number(1, 150)});
        bytes.push_back(random_weights(format, rows, columns, random_));
        test.parts.push_back({format, rows, columns, bytes.back().data()});
        bound = std::max(bound, linear_bound(format));
        Floats row(static_cast<size_t>(columns));
        for (int64_t i = 0; i < rows; ++i) {
            decode(format, bytes.back().data() + static_cast<size_t>(i) * row_bytes(format, row.size()),
                   row.data(), row.size());
            weight_norms.push_back(static_cast<float>(std::sqrt(reference::dot(row, row))));
        }
    }

    test.rows = one_of({1, number(2, 9), number(10, 70)});
    test.columns = static_cast<size_t>(columns);
    test.out_columns = weight_norms.size();
    test.prologue = one_of({Prologue::none, Prologue::rms_norm, Prologue::silu_gate});
    test.x_columns = test.columns * (test.prologue == Prologue::silu_gate ? 2 : 1);
    test.accumulate = number(0, 1);
    test.x = normal_floats(static_cast<size_t>(test.rows) * test.x_columns, 0.1f, one_of({0.5f, 3.0f}));
    test.norm = normal_floats(test.columns, 1.0f, 0.3f);
    test.before = normal_floats(static_cast<size_t>(test.rows) * test.out_columns);
    if (number(0, 1))
        test.bias = normal_floats(test.out_columns);

    static constexpr const char* prologues[] = {"", ", rms_norm", ", silu_gate"};
    const std::string operation = std::string("linear ") + info(type).name;
    const std::string shape =
        text(test.rows) + " × " + text(columns) + " → " + text(int64_t{test.parts[0].rows}) +
        (formats.size() > 1 ? " + " + text(test.parts[1].rows) + " " + info(other).name : "") +
        prologues[static_cast<int>(test.prologue)] + (test.bias.empty() ? "" : ", bias") +
        (test.accumulate ? ", accumulate" : "");
    guarded(operation, shape, [&] {
        const Floats whole = run_linear(device_, test, 0, test.rows);
        const Floats expected = run_linear(reference_, test, 0, test.rows);
        double worst = 0.0;
        for (size_t row = 0; row < static_cast<size_t>(test.rows); ++row) {
            const double x_size = root_mean_square(test.prepared(row));
            for (size_t column = 0; column < test.out_columns; ++column) {
                const size_t i = row * test.out_columns + column;
                // Sum, bias and what was there before are added in float: two roundings of 2⁻²⁴ each.
                const double addends =
                    std::abs(static_cast<double>(expected[i])) +
                    std::abs(test.bias.empty() ? 0.0 : static_cast<double>(test.bias[column])) +
                    std::abs(test.accumulate ? static_cast<double>(test.before[i]) : 0.0);
                const double rounding = addends * 0x1p-23;
                const double difference = largest_difference({&whole[i], 1}, {&expected[i], 1});
                const double size = x_size * static_cast<double>(weight_norms[column]);
                // A column whose weights are all zero has no size; it must then be exact.
                const double excess = std::max(difference - rounding, 0.0);
                worst = std::max(worst, excess > 0.0 ? excess / size : 0.0);
            }
        }
        report(operation, shape, worst, bound);

        // Law 1: cut into pieces of random sizes, with single rows among them.
        Floats pieces;
        for (int row = 0; row < test.rows;) {
            const int rows = std::min(test.rows - row, one_of({1, 1, number(2, 9), number(10, 40)}));
            const Floats piece = run_linear(device_, test, row, rows);
            pieces.insert(pieces.end(), piece.begin(), piece.end());
            row += rows;
        }
        report(operation + ", rows alone", shape, different_bits(pieces, whole), 0.0);
    });
}

// Rotation, cache and attention

struct Selftest::AttentionCase {
    KvCacheSpec spec;
    int layer = 0;
    int heads = 0;
    float scale = 0.0f;
    int dimensions = 0;
    RopeStyle style = RopeStyle::interleaved;
    Floats rope;
    std::vector<Floats> sequences;                  ///< qkv of each, [tokens, width]
    std::vector<std::vector<int32_t>> block_tables; ///< of each
    std::vector<int32_t> spare_blocks;

    size_t width() const {
        return static_cast<size_t>((heads + spec.kv_heads) * spec.key_length +
                                   spec.kv_heads * spec.value_length);
    }
    size_t out_width() const { return static_cast<size_t>(heads * spec.value_length); }
    int32_t tokens(size_t sequence) const {
        return static_cast<int32_t>(sequences[sequence].size() / width());
    }
};

Selftest::AttentionRun Selftest::run_attention(Backend& backend, KvCache cache, const AttentionCase& test,
                                               const Plan& plan) {
    const OnDevice rope(backend, test.rope);
    AttentionRun result;
    for (size_t sequence = 0; sequence < test.sequences.size(); ++sequence) {
        result.turned.emplace_back(test.sequences[sequence].size());
        result.out.emplace_back(static_cast<size_t>(test.tokens(sequence)) * test.out_width());
    }
    for (const std::vector<Piece>& pieces : plan) {
        Floats rows;
        std::vector<int32_t> positions, kv_slots, tables;
        std::vector<Span> spans;
        for (const Piece& piece : pieces) {
            const std::vector<int32_t>& table = test.block_tables[piece.sequence];
            spans.push_back({static_cast<int32_t>(positions.size()), piece.rows, piece.first_position,
                             static_cast<int32_t>(tables.size())});
            tables.insert(tables.end(), table.begin(), table.end());
            for (int32_t position = piece.first_position; position < piece.first_position + piece.rows;
                 ++position) {
                positions.push_back(position);
                kv_slots.push_back(table[static_cast<size_t>(position / test.spec.block_size)] *
                                       test.spec.block_size +
                                   position % test.spec.block_size);
                const float* row =
                    &test.sequences[piece.sequence][static_cast<size_t>(position) * test.width()];
                rows.insert(rows.end(), row, row + test.width());
            }
        }
        const OnDevice qkv(backend, rows);
        const OnDevice out(backend, positions.size() * test.out_width());
        const std::vector<int32_t> ids(positions.size());
        backend.begin({ids, positions, kv_slots, spans, tables, {}});
        backend.rope_store({.qkv = qkv,
                            .cache = cache,
                            .layer = test.layer,
                            .heads = test.heads,
                            .rope = test.dimensions > 0 ? Buffer(rope) : Buffer(),
                            .dimensions = test.dimensions,
                            .style = test.style});
        backend.attention({.qkv = qkv,
                           .cache = cache,
                           .layer = test.layer,
                           .heads = test.heads,
                           .scale = test.scale,
                           .out = out});
        const Floats turned = qkv.download(rows.size());
        const Floats attended = out.download(positions.size() * test.out_width());
        for (size_t i = 0; i < pieces.size(); ++i) {
            const auto put = [&](const Floats& from, Floats& to, size_t width) {
                std::copy_n(from.begin() +
                                static_cast<std::ptrdiff_t>(static_cast<size_t>(spans[i].first_row) * width),
                            static_cast<size_t>(spans[i].rows) * width,
                            to.begin() + static_cast<std::ptrdiff_t>(
                                             static_cast<size_t>(spans[i].first_position) * width));
            };
            put(turned, result.turned[pieces[i].sequence], test.width());
            put(attended, result.out[pieces[i].sequence], test.out_width());
        }
    }
    return result;
}

void Selftest::attention(KvType type, bool long_context) {
    AttentionCase test;
    const auto [heads, kv_heads] =
        one_of<std::pair<int, int>>({{1, 1}, {4, 4}, {9, 3}, {8, 2}, {6, 1}, {10, 5}});
    test.heads = heads;
    test.spec = {.layers = number(1, 3),
                 .kv_heads = kv_heads,
                 .key_length = one_of({8, 16, 36, 64, 80, 96, 128, 192}),
                 .value_length = 0,
                 .block_size = one_of({1, 4, 7, 16, 32}),
                 .blocks = 0,
                 .type = type};
    test.spec.value_length = number(0, 2) ? test.spec.key_length : one_of({8, 36, 64, 128});
    test.layer = number(0, test.spec.layers - 1);
    test.scale = 1.0f / std::sqrt(static_cast<float>(test.spec.key_length));
    test.dimensions = one_of({0, test.spec.key_length, test.spec.key_length / 4 * 2});
    test.style = one_of({RopeStyle::interleaved, RopeStyle::halves});

    int32_t longest = 0;
    const int count = number(1, 4);
    for (int i = 0; i < count; ++i) {
        const int32_t tokens = long_context && i == 0 ? number(257, 560) : number(1, 70);
        longest = std::max(longest, tokens);
        test.sequences.push_back(normal_floats(static_cast<size_t>(tokens) * test.width()));
        const int blocks = (tokens + test.spec.block_size - 1) / test.spec.block_size;
        test.block_tables.emplace_back(static_cast<size_t>(blocks));
        test.spec.blocks += blocks;
    }
    for (int32_t position = 0; position < longest; ++position)
        for (int pair = 0; pair < test.dimensions / 2; ++pair) {
            const double angle = position * std::pow(10000.0, -2.0 * pair / test.dimensions);
            test.rope.push_back(static_cast<float>(std::cos(angle)));
            test.rope.push_back(static_cast<float>(std::sin(angle)));
        }
    // As many blocks again are spare, and all of them are dealt in random order.
    test.spec.blocks *= 2;
    const auto deal = [&] {
        std::vector<int32_t> blocks(static_cast<size_t>(test.spec.blocks));
        std::iota(blocks.begin(), blocks.end(), 0);
        std::shuffle(blocks.begin(), blocks.end(), random_);
        for (std::vector<int32_t>& table : test.block_tables)
            for (int32_t& block : table) {
                block = blocks.back();
                blocks.pop_back();
            }
        test.spare_blocks = blocks;
    };

    Plan whole(1);
    std::vector<Piece> rest;
    std::string tokens;
    for (size_t sequence = 0; sequence < test.sequences.size(); ++sequence) {
        whole[0].push_back({sequence, 0, test.tokens(sequence)});
        rest.push_back(whole[0].back());
        tokens += (sequence ? " + " : "") + text(test.tokens(sequence));
    }
    // Random pieces, all sequences side by side until the last one ends.
    Plan pieces;
    while (!rest.empty()) {
        pieces.emplace_back();
        for (Piece& piece : rest) {
            const int rows = std::min(piece.rows, one_of({1, 1, number(2, 9), number(10, 80)}));
            pieces.back().push_back({piece.sequence, piece.first_position, rows});
            piece.first_position += rows;
            piece.rows -= rows;
        }
        std::erase_if(rest, [](const Piece& piece) { return piece.rows == 0; });
    }

    static constexpr const char* kinds[] = {"f32", "f16", "int8", "int4"};
    const std::string kind = kinds[static_cast<int>(type)];
    const std::string shape = tokens + " tokens in blocks of " + text(test.spec.block_size) + ", " +
                              text(heads) + " heads over " + text(kv_heads) + ", keys " +
                              text(test.spec.key_length) + ", values " + text(test.spec.value_length) + ", " +
                              text(test.dimensions) + " turned " +
                              (test.style == RopeStyle::halves ? "(halves)" : "(interleaved)");
    guarded("attention " + kind, shape, [&] {
        deal();
        const Owned cache(device_, device_.create_kv_cache(test.spec));
        const Owned reference_cache(reference_, reference_.create_kv_cache(test.spec));
        const AttentionRun got = run_attention(device_, cache, test, whole);
        const AttentionRun expected = run_attention(reference_, reference_cache, test, whole);
        double rope_error = 0.0;
        double attention_error = 0.0;
        for (size_t i = 0; i < test.sequences.size(); ++i) {
            // Queries, keys and values are all about 1 in size.
            rope_error = std::max(rope_error, largest_difference(got.turned[i], expected.turned[i]));
            attention_error = std::max(attention_error, largest_difference(got.out[i], expected.out[i]));
        }
        report("rope_store " + kind, shape, rope_error, 1e-5);
        report("attention " + kind, shape, attention_error, attention_bound(type));

        // Law 1: the same sequences in pieces, in other blocks.
        deal();
        const AttentionRun again = run_attention(device_, cache, test, pieces);
        double rope_bits = 0.0;
        double attention_bits = 0.0;
        for (size_t i = 0; i < test.sequences.size(); ++i) {
            rope_bits += different_bits(again.turned[i], got.turned[i]);
            attention_bits += different_bits(again.out[i], got.out[i]);
        }
        report("rope_store " + kind + ", rows alone", shape, rope_bits, 0.0);
        report("attention " + kind + ", rows alone", shape, attention_bits, 0.0);
        moved_blocks(cache, test, got.out[0]);
    });
}

/// The first sequence's blocks move to spare ones, one half by copy_kv_blocks, the other over the host: the
/// last row must come out the same.
void Selftest::moved_blocks(KvCache cache, const AttentionCase& test, const Floats& out) {
    AttentionCase moved = test;
    moved.sequences.resize(1);
    moved.block_tables.resize(1);
    std::vector<BlockCopy> copies;
    std::vector<std::byte> content(device_.kv_block_bytes(test.spec));
    for (size_t i = 0; i < moved.block_tables[0].size(); ++i) {
        const int32_t from = moved.block_tables[0][i];
        const int32_t to = test.spare_blocks[i];
        if (i % 2 == 0) {
            copies.push_back({from, to});
        } else {
            device_.download_kv_block(cache, from, content);
            device_.upload_kv_block(cache, to, content);
        }
        moved.block_tables[0][i] = to;
    }
    device_.copy_kv_blocks(cache, copies);
    // Its own key is stored anew, to the moved block; all others are what was moved.
    const int32_t last = moved.tokens(0) - 1;
    const AttentionRun again = run_attention(device_, cache, moved, {{{0, last, 1}}});
    const auto row = static_cast<std::ptrdiff_t>(static_cast<size_t>(last) * test.out_width());
    report("moved blocks",
           text(last + 1) + " tokens in " + text(static_cast<int64_t>(moved.block_tables[0].size())),
           different_bits({again.out[0].begin() + row, again.out[0].end()}, {out.begin() + row, out.end()}),
           0.0);
}

std::vector<SelftestResult> Selftest::run() {
    const auto wanted = [&](const char* family) { return options_.only.empty() || options_.only == family; };
    for (const TensorType type : all_tensor_types()) {
        for (int i = 0; i < options_.repeats && wanted("linear"); ++i)
            linear(type);
        if (wanted("embed"))
            embed(type);
    }
    for (int i = 0; i < options_.repeats && wanted("gather"); ++i)
        gather();
    for (const KvType type : {KvType::f32, KvType::f16, KvType::int8, KvType::int4}) {
        for (int i = 0; i < options_.repeats && wanted("attention"); ++i)
            attention(type, false);
        if (options_.long_contexts && wanted("attention"))
            attention(type, true);
    }
    return std::move(results_);
}

} // namespace

std::vector<SelftestResult> run_selftest(Backend& device, const SelftestOptions& options,
                                         const std::function<void(const SelftestResult&)>& progress) {
    return Selftest(device, options, progress).run();
}

} // namespace orrery::kernels
