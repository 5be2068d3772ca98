#include "kernels/selftest.h"

#include "kernels/reference/operations.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest/attention_case.h"
#include "kernels/selftest/linear_case.h"
#include "kernels/selftest/random_weights.h"
#include "kernels/selftest/row_case.h"
#include "kernels/selftest/support.h"

#include <numeric>
#include <utility>

namespace orrery::kernels {

namespace selftest {
namespace {

/// In units of a key's or value's size. The cache rounds on both sides alike; a device may keep probabilities
/// in binary16, unless the cache is in float32. Where its rotations differ in the last bit, a quant may fall
/// to the other side, which moves a score by up to a step.
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

const char* name(KvType type) {
    static constexpr const char* names[] = {"f32", "f16", "int8", "int4"};
    return names[static_cast<int>(type)];
}

/// A batch of one sequence for operations that look at no cache.
struct RowsOnly {
    explicit RowsOnly(int32_t rows) : numbers(static_cast<size_t>(rows)), span{0, rows, 0} {
        std::iota(numbers.begin(), numbers.end(), 0);
    }
    ForwardBatch batch() const { return {numbers, numbers, {&span, 1}, {}, {}, {}}; }
    std::vector<int32_t> numbers;
    Span span;
};

class Selftest {
public:
    Selftest(Backend& device, const SelftestOptions& options,
             const std::function<void(const SelftestResult&)>& progress)
        : device_(device),
          reference_({.poison = true}),
          options_(options),
          progress_(progress),
          random_(options.seed) {}

    std::vector<SelftestResult> run() {
        const auto wanted = [&](const char* family) {
            return options_.only.empty() || options_.only == family;
        };
        for (const TensorType type : all_tensor_types()) {
            for (int i = 0; i < options_.repeats && wanted("linear"); ++i)
                linear(type);
            if (wanted("embed"))
                embed(type);
            if (wanted("expert_linear"))
                expert_linear(type);
        }
        for (int i = 0; i < options_.repeats && wanted("gather"); ++i)
            gather();
        const std::pair<const char*, RowCase (*)(Random&)> row_cases[] = {
            {"norm", norm_case},         {"gate", gate_case},   {"add", add_case},
            {"soft_cap", soft_cap_case}, {"route", route_case}, {"combine_experts", combine_case}};
        for (const auto& [family, make] : row_cases)
            for (int i = 0; i < 4 * options_.repeats && wanted(family); ++i)
                rows(make(random_));
        for (const KvType type : {KvType::f32, KvType::f16, KvType::int8, KvType::int4}) {
            for (int i = 0; i < options_.repeats && wanted("attention"); ++i)
                attention(type, false);
            if (options_.long_contexts && wanted("attention"))
                attention(type, true);
        }
        return std::move(results_);
    }

private:
    void report(const std::string& operation, const std::string& shape, double error, double bound,
                const std::string& note = {}) {
        results_.push_back({operation, shape, error, bound, note.empty() && error <= bound, note});
        if (progress_)
            progress_(results_.back());
    }

    /// Runs `test`, and reports a failure where the device throws.
    void guarded(const std::string& operation, const std::string& shape, const std::function<void()>& test) {
        try {
            test();
        } catch (const std::exception& error) {
            report(operation, shape, std::numeric_limits<double>::infinity(), 0.0, error.what());
        }
    }

    void linear(TensorType type) {
        const LinearCase test(type, random_);
        const std::string operation = std::string("linear ") + info(type).name;
        guarded(operation, test.shape(), [&] {
            const Floats whole = test.run(device_, 0, test.rows());
            const auto [error, bound] = test.compare(whole, test.run(reference_, 0, test.rows()));
            report(operation, test.shape(), error, bound);

            // Law 1: in pieces of random sizes, with single rows among them.
            Floats pieces;
            for (int row = 0; row < test.rows();) {
                const int rows = std::min(
                    test.rows() - row, random_.one_of({1, 1, random_.number(2, 9), random_.number(10, 40)}));
                const Floats piece = test.run(device_, row, rows);
                pieces.insert(pieces.end(), piece.begin(), piece.end());
                row += rows;
            }
            report(operation + ", rows alone", test.shape(), different_bits(pieces, whole), 0.0);
        });
    }

    void rows(const RowCase& test) {
        guarded(test.operation, test.shape, [&] {
            const Floats whole = test.run(device_, 0, test.rows);
            const Floats expected = test.run(reference_, 0, test.rows);
            double size = 1.0;
            for (const float value : expected)
                size = std::max(size, std::abs(static_cast<double>(value)));
            report(test.operation, test.shape, largest_difference(whole, expected) / size, test.bound);
            rows_alone(test, whole);
        });
    }

    void expert_linear(TensorType type) {
        const ExpertCase test = expert_case(type, random_);
        guarded(test.operation, test.shape, [&] {
            const Floats whole = test.run(device_, 0, test.rows);
            report(test.operation, test.shape, different_bits(whole, test.expected(device_)), 0.0);
            rows_alone(test, whole);
        });
    }

    /// Law 1: in pieces of random sizes, with single rows among them.
    void rows_alone(const RowCase& test, const Floats& whole) {
        Floats pieces;
        for (int row = 0; row < test.rows;) {
            const int count = std::min(test.rows - row,
                                       random_.one_of({1, 1, random_.number(2, 9), random_.number(10, 40)}));
            const Floats piece = test.run(device_, row, count);
            pieces.insert(pieces.end(), piece.begin(), piece.end());
            row += count;
        }
        report(test.operation + ", rows alone", test.shape, different_bits(pieces, whole), 0.0);
    }

    void embed(TensorType type) {
        const int64_t columns = random_columns(type, random_);
        const int vocabulary = random_.number(1, 90);
        const int rows = random_.number(1, 70);
        const float scale = random_.one_of({1.0f, 24.0f});
        const std::vector<std::byte> bytes = random_weights(type, vocabulary, columns, random_.bits());
        const WeightPart part = {type, vocabulary, columns, bytes.data()};
        const RowsOnly sequence(rows);
        std::vector<int32_t> ids(static_cast<size_t>(rows));
        for (int32_t& id : ids)
            id = random_.number(0, vocabulary - 1);

        const std::string operation = std::string("embed ") + info(type).name;
        const std::string shape =
            std::to_string(rows) + " of " + std::to_string(vocabulary) + " × " + std::to_string(columns);
        guarded(operation, shape, [&] {
            const auto on = [&](Backend& backend) {
                const size_t count = ids.size() * static_cast<size_t>(columns);
                const Owned table(backend, backend.load_weight({&part, 1}));
                const OnDevice out(backend, count);
                ForwardBatch batch = sequence.batch();
                batch.ids = ids;
                backend.begin(batch);
                backend.embed({table, matrix(out, rows, columns), scale});
                return out.download(count);
            };
            const Floats expected = on(reference_);
            const double size =
                std::sqrt(reference::dot(expected, expected) / static_cast<double>(expected.size()));
            report(operation, shape, largest_difference(on(device_), expected) / size, 1e-5);
        });
    }

    void gather() {
        const int rows = random_.number(1, 70);
        const int columns = random_.number(1, 300);
        const Floats x = random_.normal(static_cast<size_t>(rows) * static_cast<size_t>(columns));
        const RowsOnly sequence(rows);
        std::vector<int32_t> wanted;
        Floats expected;
        for (int32_t row = 0; row < rows; ++row)
            if (row + 1 == rows || random_.coin()) {
                wanted.push_back(row);
                const auto begin = x.begin() + std::ptrdiff_t{row} * columns;
                expected.insert(expected.end(), begin, begin + columns);
            }

        const std::string shape =
            std::to_string(wanted.size()) + " of " + std::to_string(rows) + " × " + std::to_string(columns);
        guarded("gather", shape, [&] {
            const OnDevice from(device_, x);
            const OnDevice out(device_, expected.size());
            ForwardBatch batch = sequence.batch();
            batch.output_rows = wanted;
            device_.begin(batch);
            device_.gather(
                {matrix(from, rows, columns), matrix(out, static_cast<int64_t>(wanted.size()), columns)});
            report("gather", shape, different_bits(out.download(expected.size()), expected), 0.0);
        });
    }

    void attention(KvType type, bool long_context) {
        AttentionCase test(type, long_context, random_);
        const std::string rope = std::string("rope_store ") + name(type);
        const std::string attention = std::string("attention ") + name(type);
        guarded(attention, test.shape(), [&] {
            const Owned cache(device_, device_.create_kv_cache(test.spec()));
            const Owned reference_cache(reference_, reference_.create_kv_cache(test.spec()));
            const AttentionCase::Outcome got = test.run(device_, cache, test.whole());
            const AttentionCase::Outcome expected = test.run(reference_, reference_cache, test.whole());
            compare(got.turned, expected.turned, rope, test.shape(), 1e-5);
            compare(got.out, expected.out, attention, test.shape(), attention_bound(type));

            // Law 1: the same sequences in pieces, in other blocks.
            test.scatter(random_);
            const AttentionCase::Outcome again = test.run(device_, cache, test.pieces(random_));
            compare_bits(again.turned, got.turned, rope, test.shape());
            compare_bits(again.out, got.out, attention, test.shape());

            const Floats moved = test.last_row_from_moved_blocks(device_, cache);
            report(std::string("moved blocks ") + name(type), test.shape(),
                   different_bits(moved, test.last_row(got)), 0.0);
        });
    }

    void compare(const std::vector<Floats>& got, const std::vector<Floats>& expected,
                 const std::string& operation, const std::string& shape, double bound) {
        double error = 0.0;
        for (size_t i = 0; i < got.size(); ++i)
            error = std::max(error, largest_difference(got[i], expected[i]));
        report(operation, shape, error, bound);
    }

    void compare_bits(const std::vector<Floats>& got, const std::vector<Floats>& expected,
                      const std::string& operation, const std::string& shape) {
        double count = 0.0;
        for (size_t i = 0; i < got.size(); ++i)
            count += different_bits(got[i], expected[i]);
        report(operation + ", rows alone", shape, count, 0.0);
    }

    Backend& device_;
    ReferenceBackend reference_;
    SelftestOptions options_;
    const std::function<void(const SelftestResult&)>& progress_;
    Random random_;
    std::vector<SelftestResult> results_;
};

} // namespace
} // namespace selftest

std::vector<SelftestResult> run_selftest(Backend& device, const SelftestOptions& options,
                                         const std::function<void(const SelftestResult&)>& progress) {
    return selftest::Selftest(device, options, progress).run();
}

} // namespace orrery::kernels
