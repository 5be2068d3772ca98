// The truncating stages on vocabularies of every size, against their definitions written down plainly: all
// candidates sorted, all probabilities summed, in double.
#include "kernels/sampling/truncation.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <cmath>

using namespace orrery;
using namespace orrery::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Plain {
    int32_t token;
    double logit;
    double probability;
};

/// The candidates, likeliest first.
std::vector<Plain> sorted(const std::vector<float>& logits, double temperature) {
    std::vector<Plain> all;
    double sum = 0.0;
    const double max = *std::ranges::max_element(logits);
    for (size_t i = 0; i < logits.size(); ++i)
        if (logits[i] > -infinity) {
            all.push_back({int32_t(i), logits[i], std::exp((logits[i] - max) / temperature)});
            sum += all.back().probability;
        }
    for (Plain& candidate : all)
        candidate.probability /= sum;
    std::ranges::stable_sort(all, [](const Plain& a, const Plain& b) { return a.logit > b.logit; });
    return all;
}

/// How many of an order reach p; 0 where that hangs on the last bits.
size_t reaching(const std::vector<Plain>& order, double p) {
    double reached = 0.0;
    for (size_t i = 0; i < order.size(); ++i) {
        reached += order[i].probability;
        if (std::abs(reached - p) < 1e-5)
            return 0;
        if (reached > p)
            return i + 1;
    }
    return order.size();
}

std::vector<int32_t> left_in(CandidateSet& set) {
    std::vector<int32_t> tokens;
    for (const Candidate& candidate : set.top(set.vocabulary()))
        tokens.push_back(candidate.token);
    std::ranges::sort(tokens);
    return tokens;
}

std::vector<int32_t> tokens_of(const std::vector<Plain>& candidates) {
    std::vector<int32_t> tokens;
    for (const Plain& candidate : candidates)
        tokens.push_back(candidate.token);
    std::ranges::sort(tokens);
    return tokens;
}

} // namespace

class tst_truncation : public QObject {
    Q_OBJECT

private slots:
    void keeps_what_the_definition_keeps_data() {
        QTest::addColumn<int>("vocabulary");
        QTest::addColumn<double>("spread");
        for (const int vocabulary : {1, 2, 7, 64, 65, 300, 1000, 5000})
            for (const double spread : {0.02, 0.5, 2.0, 8.0})
                QTest::addRow("%d tokens, spread %g", vocabulary, spread) << vocabulary << spread;
    }
    void keeps_what_the_definition_keeps() {
        QFETCH(int, vocabulary);
        QFETCH(double, spread);
        test::Random random(test::test_seed() + uint64_t(vocabulary));
        for (int round = 0; round < 12; ++round) {
            std::vector<float> logits;
            for (int i = 0; i < vocabulary; ++i) {
                double sum = -6.0; // of twelve: nearly normal
                for (int k = 0; k < 12; ++k)
                    sum += double(random.below(1 << 20)) / (1 << 20);
                logits.push_back(i > 0 && random.chance(0.05) ? -infinity : float(spread * sum));
            }
            const double temperature = round % 3 == 0 ? 1.0 : 0.3 + random.below(100) / 50.0;
            const std::vector<Plain> all = sorted(logits, temperature);
            const auto check = [&](const char* stage, double p, const auto& run, size_t expected_count,
                                   const std::vector<Plain>& expected) {
                if (expected_count == 0)
                    return;
                CandidateSet set;
                set.reset(logits);
                QVERIFY(set.prepare());
                set.apply_temperature(temperature);
                run(set);
                QVERIFY2(left_in(set) ==
                             tokens_of({expected.begin(), expected.begin() + long(expected_count)}),
                         qPrintable(QString("%1 %2: %3 left, not %4")
                                        .arg(stage)
                                        .arg(p)
                                        .arg(set.left())
                                        .arg(expected_count)));
                QCOMPARE(set.left(), expected_count);
            };

            double entropy = 0.0;
            for (const Plain& candidate : all)
                if (candidate.probability > 0)
                    entropy -= candidate.probability * std::log(candidate.probability);
            std::vector<Plain> typical = all;
            std::ranges::stable_sort(typical, [&](const Plain& a, const Plain& b) {
                return std::abs(-std::log(a.probability) - entropy) <
                       std::abs(-std::log(b.probability) - entropy);
            });
            for (const double p : {0.02, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999}) {
                check(
                    "top_p", p, [&](CandidateSet& set) { keep_top_p(set, float(p)); }, reaching(all, p), all);
                // Where two are equally near to the entropy but for the last bits, either is right.
                const size_t count = reaching(typical, p);
                const auto distance = [&](size_t i) {
                    return std::abs(-std::log(typical[i].probability) - entropy);
                };
                const bool clear = count == 0 || count == typical.size() ||
                                   std::abs(distance(count - 1) - distance(count)) > 1e-4;
                check(
                    "typical", p, [&](CandidateSet& set) { TypicalStage().keep(set, float(p)); },
                    clear ? count : 0, typical);
                size_t likely = 0;
                bool sharp = true;
                for (const Plain& candidate : all) {
                    const double share = candidate.probability / all[0].probability;
                    likely += share > p;
                    sharp &= std::abs(share - p) > 1e-5;
                }
                check(
                    "min_p", p, [&](CandidateSet& set) { keep_min_p(set, float(p)); },
                    sharp ? std::max<size_t>(likely, 1) : 0, all);
                // All but the least likely of the choices that reach a threshold.
                size_t choices = 0;
                sharp = true;
                for (const Plain& candidate : all) {
                    choices += candidate.probability > p;
                    sharp &= std::abs(candidate.probability - p) > 1e-6;
                }
                const size_t dropped = choices >= 2 ? choices - 1 : 0;
                check("xtc", p, [&](CandidateSet& set) { exclude_top_choices(set, float(p)); },
                      sharp ? all.size() - dropped : 0, {all.begin() + long(dropped), all.end()});
            }
            double mean = 0.0, square = 0.0;
            for (const Plain& candidate : all) {
                mean += candidate.logit / double(all.size());
                square += candidate.logit * candidate.logit / double(all.size());
            }
            const double deviation = std::sqrt(std::max(square - mean * mean, 0.0));
            for (const double n : {0.1, 0.5, 1.0, 2.5}) {
                size_t near = 0;
                bool sharp = true;
                for (const Plain& candidate : all) {
                    near += candidate.logit >= all[0].logit - n * deviation;
                    sharp &= std::abs(candidate.logit - all[0].logit + n * deviation) > 1e-5 * spread;
                }
                check(
                    "top_n_sigma", n, [&](CandidateSet& set) { keep_top_n_sigma(set, float(n)); },
                    sharp ? near : 0, all);
            }
            if (QTest::currentTestFailed())
                return;
        }
    }

    /// A logit exactly at the edge stays.
    void the_edge_belongs_to_what_is_kept() {
        const auto left = [](std::vector<float> logits, const auto& run) {
            CandidateSet set;
            set.reset(logits);
            set.prepare();
            run(set);
            return set.left();
        };
        // A standard deviation of 1: the second lies two of them below the first.
        QCOMPARE(left({1, -1}, [](CandidateSet& set) { keep_top_n_sigma(set, 2.0f); }), size_t(2));
        QCOMPARE(left({1, -1}, [](CandidateSet& set) { keep_top_n_sigma(set, 1.99f); }), size_t(1));
        for (const double edge : {-2.0, -0.25, -1e-3}) {
            const auto below = float(std::nextafter(float(edge), -infinity));
            const std::vector<float> logits = {0.0f, float(edge), below};
            QCOMPARE(left(logits, [&](CandidateSet& set) { set.drop_below(float(edge)); }), size_t(2));
            // Between two floats, the edge is the one above it.
            QCOMPARE(
                left(logits, [&](CandidateSet& set) { set.drop_below((double(float(edge)) + below) / 2); }),
                size_t(2));
            QCOMPARE(left(logits, [&](CandidateSet& set) { set.drop_below(below); }), size_t(3));
            QCOMPARE(left(logits, [&](CandidateSet& set) { set.drop_below(1.0); }), size_t(1));
        }
    }
};

QTEST_GUILESS_MAIN(tst_truncation)
#include "tst_truncation.moc"
