// The vector functions of every code path against the C library in double precision, over the whole range.
#include "kernels/cpu/kernel_table.h"

#include <QtTest>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace orrery::kernels;
using namespace orrery::kernels::cpu;

namespace {

constexpr double unit = 0x1p-24; ///< half a step of a float between 1 and 2

std::vector<const KernelTable*> tables() {
    std::vector<const KernelTable*> all;
    if (cpu_features().best() >= IsaLevel::avx2)
        all.push_back(&kernels_for(IsaLevel::avx2));
    if (cpu_features().best() >= IsaLevel::avx512_vnni)
        all.push_back(&kernels_for(IsaLevel::avx512_vnni));
    return all;
}

/// Numbers of every size and sign up to `limit`, a fine grid about 0 and the borders between pieces.
std::vector<float> arguments(float limit, std::mt19937& random) {
    std::vector<float> values = {0.0f, -0.0f, 0.625f, std::nextafter(0.625f, 0.0f), -0.625f, limit, -limit};
    for (int i = -20000; i <= 20000; ++i)
        values.push_back(static_cast<float>(i) / 20000.0f * std::min(limit, 20.0f));
    std::uniform_real_distribution<float> exponent(-40.0f, std::log2(limit));
    for (int i = 0; i < 20000; ++i)
        values.push_back(std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0f : -1.0f));
    return values;
}

} // namespace

class VectorFunctionsTest : public QObject {
    Q_OBJECT

private slots:
    void init() {
        if (tables().empty())
            QSKIP("this processor has none of the code paths");
        const auto seed = std::random_device{}();
        qInfo("seed %u", seed);
        random_.seed(seed);
    }

    void activationsAreAccurate_data();
    void activationsAreAccurate();
    void softCapsAreAccurate();
    void pathsGiveTheSameBits();

private:
    std::mt19937 random_;
};

void VectorFunctionsTest::activationsAreAccurate_data() {
    QTest::addColumn<ActivationKind>("kind");
    QTest::addColumn<double>("units");                          ///< bound of the relative error
    QTest::newRow("sigmoid") << ActivationKind::sigmoid << 8.0; // e^−z: 2, the sum and the quotient
    QTest::newRow("silu") << ActivationKind::silu << 8.0;
    QTest::newRow("gelu") << ActivationKind::gelu << 17.0;
    // e^2u with 2u rounded to 3 units, up to 87 of them below 0.
    QTest::newRow("gelu_tanh") << ActivationKind::gelu_tanh << 300.0;
    QTest::newRow("relu2") << ActivationKind::relu2 << 1.0;
}

void VectorFunctionsTest::activationsAreAccurate() {
    QFETCH(ActivationKind, kind);
    QFETCH(double, units);
    const auto exact = [kind](double z) {
        switch (kind) {
        case ActivationKind::none:
            return z;
        case ActivationKind::silu:
            return z / (1.0 + std::exp(-z));
        case ActivationKind::gelu:
            return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
        case ActivationKind::gelu_tanh: // ½ (1 + tanh(u)) without its cancellation
            return z / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (z + 0.044715 * z * z * z)));
        case ActivationKind::relu2:
            return z > 0 ? z * z : 0.0;
        case ActivationKind::sigmoid:
            return 1.0 / (1.0 + std::exp(-z));
        }
        return 0.0;
    };
    // Beyond ±88 an exponential is cut, which the next float below 0 does not show.
    const auto values = arguments(1e15f, random_);
    std::vector<float> got(values.size());
    for (const KernelTable* table : tables()) {
        const Activation activation{.kind = kind};
        table->activate(activation, values.data(), nullptr, got.data(), static_cast<int64_t>(values.size()));
        double worst = 0.0;
        for (size_t i = 0; i < values.size(); ++i) {
            const double want = exact(double(values[i]));
            // Below e^−87 results are cut to 0 or to about 1e-38 times the argument.
            const double floor = 2e-38 * std::max(1.0, std::abs(double(values[i])));
            const double error = std::abs(double(got[i]) - want);
            const double relative = error <= floor ? 0.0 : error / std::abs(want) / unit;
            worst = std::max(worst, relative);
            QVERIFY2(relative <= units, qPrintable(QString("%1: f(%2) = %3, not %4: %5 units")
                                                       .arg(table->name)
                                                       .arg(double(values[i]))
                                                       .arg(double(got[i]))
                                                       .arg(want)
                                                       .arg(relative)));
        }
        qInfo("%s: at most %.2f units", table->name, worst);
    }
}

void VectorFunctionsTest::softCapsAreAccurate() {
    const auto values = arguments(1e30f, random_);
    std::vector<float> got(values.size());
    for (const KernelTable* table : tables())
        for (const float cap : {0.0f, 1.0f, 30.0f}) {
            table->soft_cap(values.data(), 0.5f, cap, got.data(), static_cast<int64_t>(values.size()));
            double worst = 0.0;
            for (size_t i = 0; i < values.size(); ++i) {
                const double x = 0.5 * double(values[i]);
                const double want = cap != 0.0f ? double(cap) * std::tanh(x / double(cap)) : x;
                const double error = std::abs(double(got[i]) - want);
                worst = std::max(worst, error == 0.0 ? 0.0 : error / std::abs(want) / unit);
            }
            qInfo("%s, cap %g: at most %.2f units", table->name, double(cap), worst);
            // tanh: 4; its argument and the product with the cap: 1 each.
            QVERIFY(worst <= 7.0);
        }
}

void VectorFunctionsTest::pathsGiveTheSameBits() {
    const auto values = arguments(1e15f, random_);
    const auto count = static_cast<int64_t>(values.size());
    const auto up = arguments(3.0f, random_);
    for (const ActivationKind kind :
         {ActivationKind::none, ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh,
          ActivationKind::relu2, ActivationKind::sigmoid})
        for (const float* second : {static_cast<const float*>(nullptr), up.data()}) {
            Activation activation{.kind = kind, .gated = second != nullptr};
            activation.alpha = 1.702f;
            activation.limit = 7.0f;
            activation.up_offset = 1.0f;
            std::vector<float> first, other(values.size());
            for (const KernelTable* table : tables()) {
                table->activate(activation, values.data(), second, other.data(), count);
                if (first.empty())
                    first = other;
                QCOMPARE(std::memcmp(first.data(), other.data(), other.size() * sizeof(float)), 0);
            }
        }
}

QTEST_GUILESS_MAIN(VectorFunctionsTest)
#include "tst_vector_functions.moc"
