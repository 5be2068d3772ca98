#include "engine/model/rope_table.h"
#include "kernels/error.h"

#include <QtTest>

#include <cmath>
#include <limits>

using namespace orrery;

class tst_rope_table : public QObject {
    Q_OBJECT

private slots:
    // Against the formula of the paper in long double: θᵢ = base^(−2i/d), angle = position · θᵢ. Frequencies
    // are computed in float32: the exponent is off by 2⁻²⁴ of itself, which the power turns into ln(base) ·
    // 2⁻²⁴; the power, its reciprocal and the division round once more each.
    void follows_the_paper() {
        for (const double base : {10000.0, 100000.0, 500000.0})
            for (const int dimensions : {2, 16, 64, 80, 128}) {
                RopeConfig rope;
                rope.dimensions = dimensions;
                rope.base = base;
                const int positions = 8192, pairs = dimensions / 2;
                const auto table = rope_table(rope, positions);
                QCOMPARE(table.size(), size_t(positions) * size_t(dimensions));
                for (const int position : {0, 1, 2, 77, 4095, 8191})
                    for (int i = 0; i < pairs; ++i) {
                        const long double theta =
                            std::pow(static_cast<long double>(base), -2.0L * i / dimensions);
                        const long double angle = position * theta;
                        const double tolerance =
                            static_cast<double>(angle) * (std::log(base) + 3) * 0x1p-24 + 1e-7;
                        const size_t at = (size_t(position) * size_t(pairs) + size_t(i)) * 2;
                        QVERIFY(std::abs(table[at] - static_cast<double>(std::cos(angle))) <= tolerance);
                        QVERIFY(std::abs(table[at + 1] - static_cast<double>(std::sin(angle))) <= tolerance);
                    }
            }
    }

    void scalings_divide_the_frequencies() {
        RopeConfig rope;
        rope.dimensions = 8;
        const auto plain = rope_frequencies(rope);
        rope.linear_factor = 4;
        rope.frequency_factors = {1, 2, 4, 8};
        const auto scaled = rope_frequencies(rope);
        for (size_t i = 0; i < 4; ++i)
            QCOMPARE(scaled[i], plain[i] / 4 / rope.frequency_factors[i]);
        // At four times the position, a model with linear scaling by four turns as far.
        rope.frequency_factors.clear();
        const auto stretched = rope_table(rope, 41);
        rope.linear_factor = 1;
        const auto original = rope_table(rope, 11);
        for (size_t i = 0; i < 8; ++i)
            QCOMPARE(stretched[40 * 8 + i], original[10 * 8 + i]);
    }

    void memory_that_is_not_there_is_named() {
        RopeConfig rope;
        rope.dimensions = 4096;
        try {
            rope_table(rope, std::numeric_limits<int>::max());
            QFAIL("took 32 TiB");
        } catch (const OutOfMemory& error) {
            QVERIFY2(std::string(error.what()).find("33554432 MiB are needed") != std::string::npos,
                     error.what());
        }
    }

    void no_dimensions_no_table() { QVERIFY(rope_table({}, 100).empty()); }
};

QTEST_GUILESS_MAIN(tst_rope_table)
#include "tst_rope_table.moc"
