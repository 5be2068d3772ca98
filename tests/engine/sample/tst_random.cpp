// The counter-based generator against the known answers that its authors publish with it.
#include "engine/sample/random.h"

#include <QtTest>

#include <array>
#include <cmath>
#include <set>

using namespace orrery;

class TestRandom : public QObject {
    Q_OBJECT

private slots:
    void known_answers();
    void uniform_is_uniform();
    void every_argument_matters();
    void fresh_seeds_differ();
};

void TestRandom::known_answers() {
    // Random123, tests/kat_vectors, "philox4x32 10": zeros, ones, digits of π.
    const std::array zeros = {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U};
    const std::array ones = {0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU};
    const std::array pi = {0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U};
    constexpr uint32_t all = 0xffffffff;
    QVERIFY(philox4x32({0, 0, 0, 0}, {0, 0}) == zeros);
    QVERIFY(philox4x32({all, all, all, all}, {all, all}) == ones);
    QVERIFY(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) == pi);
}

void TestRandom::uniform_is_uniform() {
    // Pearson's chi-square over 64 bins: with 63 degrees of freedom it exceeds 118 once in 40,000 seeds.
    constexpr int bins = 64;
    constexpr int n = 64'000;
    for (const uint64_t seed : {uint64_t(0), uint64_t(1), ~uint64_t(0)}) {
        std::array<int, bins> count{};
        double sum = 0.0;
        for (uint32_t position = 0; position < n; ++position) {
            const double u = uniform(seed, 0, position, 0);
            QVERIFY(u >= 0.0 && u < 1.0);
            ++count[size_t(u * bins)];
            sum += u;
        }
        double chi_square = 0.0;
        for (const int c : count)
            chi_square += (c - n / bins) * double(c - n / bins) / (n / bins);
        QVERIFY2(chi_square < 118.0, qPrintable(QString::number(chi_square)));
        // The mean's standard deviation is 1 / sqrt(12 n): four of them.
        QVERIFY(std::abs(sum / n - 0.5) < 4.0 / std::sqrt(12.0 * n));
    }
}

void TestRandom::every_argument_matters() {
    std::set<double> seen;
    for (uint64_t seed : {uint64_t(0), uint64_t(1), uint64_t(1) << 32})
        for (uint32_t sample : {0, 1})
            for (uint32_t position : {0, 1})
                for (uint32_t draw : {0, 1})
                    seen.insert(uniform(seed, sample, position, draw));
    QCOMPARE(seen.size(), size_t(24));
    QCOMPARE(uniform(7, 1, 2, 3), uniform(7, 1, 2, 3));
}

void TestRandom::fresh_seeds_differ() {
    std::set<uint64_t> seen;
    for (int i = 0; i < 1000; ++i) {
        const uint64_t seed = fresh_seed();
        QVERIFY(seed < (uint64_t(1) << 53));
        seen.insert(seed);
    }
    QCOMPARE(seen.size(), size_t(1000));
}

QTEST_GUILESS_MAIN(TestRandom)
#include "tst_random.moc"
