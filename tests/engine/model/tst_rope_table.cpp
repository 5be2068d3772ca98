#include "engine/model/rope_table.h"
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"

#include <QtTest>

#include <cmath>

using namespace orrery;

namespace {

std::vector<float> rows_of(const RopeConfig& rope, int positions) {
    std::vector<float> rows(size_t(positions) * size_t(rope.dimensions));
    rope_rows(rope_frequencies(rope), 0, rows);
    return rows;
}

} // namespace

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
                const auto table = rows_of(rope, positions);
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
        // At four times the position, a model with linear scaling by four rotates as far.
        rope.frequency_factors.clear();
        const auto stretched = rows_of(rope, 41);
        rope.linear_factor = 1;
        const auto original = rows_of(rope, 11);
        for (size_t i = 0; i < 8; ++i)
            QCOMPARE(stretched[40 * 8 + i], original[10 * 8 + i]);
    }

    // However it grew, the table holds what the formula says; and it never reaches past its limit.
    void a_table_grows_with_use() {
        RopeConfig rope;
        rope.dimensions = 6;
        kernels::ReferenceBackend backend({.poison = true});
        for (const int limit : {1, 700, 1024, 3000, 1 << 20}) {
            RopeTable table(rope, backend);
            QVERIFY(!table.buffer());
            int expected = 0;
            for (const int positions : {1, 5, 700, 1024, 1025, 2500, 5000, 40000}) {
                if (positions > limit)
                    break;
                table.cover(positions, limit);
                if (positions > expected) {
                    expected = 1024;
                    while (expected < positions)
                        expected *= 2;
                    expected = std::min(expected, limit);
                }
                QCOMPARE(table.positions(), expected);
                std::vector<float> rows(size_t(expected) * 6);
                backend.download(table.buffer(), 0, std::as_writable_bytes(std::span(rows)));
                QVERIFY(rows == rows_of(rope, expected));
            }
        }
    }

    void a_table_that_cannot_grow_stays_as_it_is() {
        RopeConfig rope;
        rope.dimensions = 64;
        kernels::ReferenceBackend backend({.memory_bytes = 2000 * 64 * sizeof(float)});
        RopeTable table(rope, backend);
        table.cover(1, 1 << 20);
        const kernels::Buffer before = table.buffer();
        for (int i = 0; i < 20; ++i) // what a refusal kept would be missed soon
            QVERIFY_THROWS_EXCEPTION(OutOfMemory, table.cover(1025, 1 << 20));
        QCOMPARE(table.buffer().id, before.id);
        QCOMPARE(table.positions(), 1024);
        std::vector<float> rows(size_t(1024) * 64);
        backend.download(table.buffer(), 0, std::as_writable_bytes(std::span(rows)));
        QVERIFY(rows == rows_of(rope, 1024));
    }
};

QTEST_GUILESS_MAIN(tst_rope_table)
#include "tst_rope_table.moc"
