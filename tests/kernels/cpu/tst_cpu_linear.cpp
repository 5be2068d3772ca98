// Products of the CPU back end against the reference, and against themselves: law 1, bit for bit. Every
// format has its turn with random norms, activations, biases, scales, groups and gaps.
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cpu/cpu_devices.h"
#include "tests/kernels/cpu/random_weights.h"
#include "tests/kernels/device_floats.h"

#include <QtTest>

#include <algorithm>
#include <array>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::kernels::test;
using orrery::test::from_device;
using orrery::test::to_device;

namespace {

bool is_float(TensorType type) {
    return type == TensorType::F32 || type == TensorType::F16 || type == TensorType::BF16;
}

/// What lies between the rows of a view, and has to stay as it is.
constexpr float gap = 12345.0f;

/// A linear operation with everything that it needs.
struct LinearCase {
    struct Part {
        TensorType type;
        int64_t rows;
        size_t stride; ///< bytes from row to row
        std::vector<std::byte> bytes;
    };
    std::vector<Part> parts;
    int64_t outputs = 0; ///< rows of the weight
    int64_t columns = 0;
    int rows = 0;
    LinearOp options; ///< without handles
    bool norm_weight = false, norm_bias = false, bias = false;
    int64_t x_gap = 0, out_gap = 0;
    std::vector<float> x, weights, biases, out_biases, start;

    int64_t x_width() const { return columns * (options.activation.gated ? 2 : 1); }
    int64_t out_width() const { return outputs / options.groups; }

    /// Rows [first, first + count) through `device`.
    std::vector<float> run(Backend& device, int first, int count) const {
        std::vector<WeightPart> loaded;
        for (const Part& part : parts)
            loaded.push_back({part.type, part.rows, columns, part.bytes.data(), part.stride});
        const auto with_gaps = [&](const std::vector<float>& all, int64_t width, int64_t stride) {
            std::vector<float> values(static_cast<size_t>(count * stride), gap);
            for (int r = 0; r < count; ++r)
                std::copy_n(all.begin() + (first + r) * width, width, values.begin() + r * stride);
            return values;
        };
        const int64_t x_stride = x_width() + x_gap, out_stride = out_width() + out_gap;
        LinearOp op = options;
        op.x =
            matrix(to_device(device, with_gaps(x, x_width(), x_stride)), count, x_stride).slice(0, x_width());
        op.out = matrix(to_device(device, with_gaps(start, out_width(), out_stride)), count, out_stride)
                     .slice(0, out_width());
        op.weight = device.load_weight(loaded);
        if (norm_weight)
            op.norm.weight = to_device(device, weights);
        if (norm_bias)
            op.norm.bias = to_device(device, biases);
        if (bias)
            op.bias = to_device(device, out_biases);
        device.linear(op);
        const auto all = from_device(device, op.out.buffer, static_cast<size_t>(count * out_stride));
        std::vector<float> result;
        for (int r = 0; r < count; ++r) {
            const auto row = all.begin() + r * out_stride;
            result.insert(result.end(), row, row + out_width());
            if (std::any_of(row + out_width(), row + out_stride, [](float v) { return v != gap; }))
                result.assign(result.size(), NAN); // it wrote between the rows
        }
        for (const Buffer buffer : {op.x.buffer, op.out.buffer, op.norm.weight, op.norm.bias, op.bias})
            if (buffer)
                device.release(buffer);
        device.release(op.weight);
        return result;
    }

    std::string shape() const {
        return std::to_string(rows) + " rows, " + std::to_string(outputs) + " × " + std::to_string(columns) +
               " in " + std::to_string(parts.size()) + " parts, groups " + std::to_string(options.groups) +
               ", norm " + std::to_string(static_cast<int>(options.norm.kind)) + ", activation " +
               std::to_string(static_cast<int>(options.activation.kind)) +
               (options.activation.gated ? " gated" : "");
    }
};

void add_part(LinearCase& c, TensorType type, int64_t rows, std::mt19937& random) {
    // Some columns of a wider matrix, or all of it.
    const auto block = static_cast<int64_t>(info(type).block_elements);
    const int64_t wider = coin(random) ? c.columns : c.columns + block * number(1, 3, random);
    LinearCase::Part part{type, rows, row_bytes(type, static_cast<size_t>(wider)), {}};
    part.bytes = random_weights(type, rows, wider, random);
    c.parts.push_back(std::move(part));
    c.outputs += rows;
}

LinearCase random_case(TensorType type, int rows, std::mt19937& random, int min_outputs = 1) {
    LinearCase c;
    const auto block = static_cast<int64_t>(info(type).block_elements);
    c.columns = block == 1 ? number(1, 200, random) : block * number(1, 4, random);
    LinearOp& op = c.options;
    op.groups = one_of({1, 1, 1, 2, 3, 5}, random);
    c.rows = (rows + op.groups - 1) / op.groups * op.groups;
    const int outputs = number(min_outputs, min_outputs + 69, random);
    add_part(c, type, outputs * op.groups, random);
    if (c.columns % 32 == 0 && coin(random))
        add_part(c, one_of({TensorType::Q8_0, TensorType::F16}, random),
                 int64_t{number(1, 40, random)} * op.groups, random);

    switch (number(0, 3, random)) {
    case 0:
        op.norm = {.kind = NormKind::rms, .eps = 1e-5f};
        c.norm_weight = true; // as most models have it
        break;
    case 1:
        op.norm.kind = one_of({NormKind::rms, NormKind::layer}, random);
        op.norm.eps = 1e-3f;
        c.norm_weight = coin(random);
        c.norm_bias = coin(random);
        op.norm.weight_offset = coin(random) ? 1.0f : 0.0f;
        break;
    case 2:
        op.activation.kind =
            one_of({ActivationKind::none, ActivationKind::silu, ActivationKind::gelu,
                    ActivationKind::gelu_tanh, ActivationKind::relu2, ActivationKind::sigmoid},
                   random);
        op.activation.gated = coin(random);
        op.activation.alpha = coin(random) ? 1.0f : 1.702f;
        op.activation.limit = coin(random) ? 0.0f : 1.5f;
        op.activation.up_offset = coin(random) ? 0.0f : 1.0f;
        break;
    default:
        break;
    }
    c.bias = coin(random);
    op.accumulate = coin(random);
    op.scale = coin(random) ? 1.0f : 0.37f;
    c.x_gap = coin(random) ? 0 : number(1, 40, random);
    c.out_gap = coin(random) ? 0 : number(1, 40, random);
    c.x = random_floats(static_cast<size_t>(c.x_width() * c.rows), random);
    c.weights = random_floats(static_cast<size_t>(c.columns), random);
    c.biases = random_floats(static_cast<size_t>(c.columns), random);
    c.out_biases = random_floats(static_cast<size_t>(c.outputs), random);
    c.start = random_floats(static_cast<size_t>(c.rows * c.out_width()), random);
    return c;
}

void add_types() {
    QTest::addColumn<TensorType>("type");
    for (const TensorType type : all_tensor_types())
        QTest::addRow("%s", info(type).name) << type;
}

} // namespace

class CpuLinearTest : public QObject {
    Q_OBJECT

private slots:
    void init() {
        if (isas().empty())
            QSKIP("this processor has none of the code paths");
        const auto seed = std::random_device{}();
        qInfo("seed %u", seed);
        random_.seed(seed);
    }

    void isCloseToTheReference_data() { add_types(); }
    void isCloseToTheReference();
    void isExactWhereActivationsAre_data() { add_types(); }
    void isExactWhereActivationsAre();
    void rowsDoNotDependOnTheirNeighbours_data() { add_types(); }
    void rowsDoNotDependOnTheirNeighbours();
    void partsOfDifferentFormatsAreStacked();
    void ofNoRowsIsNothing();

private:
    std::mt19937 random_;
};

void CpuLinearTest::isCloseToTheReference() {
    QFETCH(TensorType, type);
    ReferenceBackend reference;
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        for (int i = 0; i < 12; ++i) {
            const LinearCase c = random_case(type, number(8, 19, random_), random_, 48);
            const double error = relative_error(c.run(*device, 0, c.rows), c.run(reference, 0, c.rows));
            // Activations are rounded to 16,256 steps up to the largest of 32: an error of 1/16,256/√12 of
            // that one, which is up to 20 times their root mean square (after squares and gates).
            const bool exact = std::all_of(c.parts.begin(), c.parts.end(),
                                           [](const LinearCase::Part& p) { return is_float(p.type); });
            const double bound = exact ? 1e-5 : 4e-4;
            QVERIFY2(
                error <= bound,
                qPrintable(QString("%1: relative error %2, %3").arg(isa).arg(error).arg(c.shape().c_str())));
        }
    }
}

void CpuLinearTest::isExactWhereActivationsAre() {
    // Integers of which the largest in every 32 is 127 are their own int8 quants: only float sums round.
    QFETCH(TensorType, type);
    ReferenceBackend reference;
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        for (int i = 0; i < 4; ++i) {
            LinearCase c = random_case(type, number(1, 20, random_), random_);
            c.options.norm = {};
            c.norm_weight = c.norm_bias = false;
            c.options.activation = {};
            c.x.resize(static_cast<size_t>(c.x_width() * c.rows));
            for (size_t k = 0; k < c.x.size(); ++k)
                c.x[k] = k % 32 == 7 ? 127.0f : static_cast<float>(number(-127, 127, random_));
            const double error = relative_error(c.run(*device, 0, c.rows), c.run(reference, 0, c.rows));
            QVERIFY2(
                error <= 1e-5,
                qPrintable(QString("%1: relative error %2, %3").arg(isa).arg(error).arg(c.shape().c_str())));
        }
    }
}

void CpuLinearTest::rowsDoNotDependOnTheirNeighbours() {
    QFETCH(TensorType, type);
    for (int round = 0; round < 5; ++round) {
        const LinearCase c = random_case(type, 27, random_);
        const auto width = static_cast<size_t>(c.out_width());
        std::vector<float> expected;
        for (const char* isa : isas())
            for (const int threads : {1, 2, 3}) {
                const auto device = make_cpu(threads, isa);
                const auto all = c.run(*device, 0, c.rows);
                if (expected.empty())
                    expected = all;
                QVERIFY2(same_bits(all.data(), expected.data(), all.size()),
                         qPrintable(QString("%1, %2").arg(isa).arg(c.shape().c_str())));
                for (int first = 0; first < c.rows;) {
                    // A row's matrix is its number modulo the groups: whole groups are cut off.
                    const int count = std::min(c.rows - first, number(1, 9, random_) * c.options.groups);
                    const auto some = c.run(*device, first, count);
                    QVERIFY2(same_bits(some.data(), expected.data() + static_cast<size_t>(first) * width,
                                       some.size()),
                             qPrintable(QString("%1, %2 threads, rows %3 + %4, %5")
                                            .arg(isa)
                                            .arg(threads)
                                            .arg(first)
                                            .arg(count)
                                            .arg(c.shape().c_str())));
                    first += count;
                }
            }
    }
}

void CpuLinearTest::partsOfDifferentFormatsAreStacked() {
    const int64_t columns = 512;
    LinearCase c;
    c.columns = columns;
    for (const auto& [type, rows] :
         {std::pair{TensorType::Q4_1, 19}, {TensorType::F16, 5}, {TensorType::Q6_K, 33}})
        add_part(c, type, rows, random_);
    c.rows = 40;
    c.options.norm = {.kind = NormKind::rms};
    c.norm_weight = c.bias = true;
    c.x = random_floats(static_cast<size_t>(40 * columns), random_);
    c.weights = random_floats(static_cast<size_t>(columns), random_);
    c.out_biases = random_floats(57, random_);
    c.start.resize(size_t{40} * 57);
    ReferenceBackend reference;
    const auto want = c.run(reference, 0, 40);
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        const auto got = c.run(*device, 0, 40);
        QVERIFY(relative_error(got, want) < 4e-4);
        const auto alone = c.run(*device, 0, 1);
        QVERIFY(same_bits(alone.data(), got.data(), alone.size()));
    }
}

void CpuLinearTest::ofNoRowsIsNothing() {
    for (const char* isa : isas()) {
        const auto device = make_cpu(2, isa);
        const LinearCase c = random_case(TensorType::Q8_0, 4, random_);
        QVERIFY(c.run(*device, 0, 0).empty());
    }
}

QTEST_GUILESS_MAIN(CpuLinearTest)
#include "tst_cpu_linear.moc"
