#include "ui/charts/step_history.h"

#include <QRandomGenerator>
#include <QtTest>

#include <map>

using namespace orrery;
using namespace orrery::ui;

class TestStepHistory : public QObject {
    Q_OBJECT

    static StepReport report(quint64 number, int decode, int prefill) {
        StepReport r;
        r.number = number;
        r.decode_tokens = decode;
        r.prefill_tokens = prefill;
        return r;
    }

    inline static const std::vector<StepValue> values = {
        [](const StepSample& s) { return double(s.decode); },
        [](const StepSample& s) { return double(s.prefill); }};

private slots:
    void emptyHistoryHasNoColumns() {
        StepHistory history;
        QVERIFY(history.empty());
        QVERIFY(history.view(100, 10, values).empty());
    }

    void fewStepsAreDrawnOneByOne() {
        StepHistory history;
        for (quint64 i = 1; i <= 5; ++i)
            history.add(report(i, int(i), 10));
        const auto columns = history.view(100, 240, values);
        QCOMPARE(columns.size(), size_t(5));
        QCOMPARE(columns[2].first, quint64(3));
        QCOMPARE(columns[2].last, quint64(3));
        QCOMPARE(columns[2].mean[0], 3.0);
        QCOMPARE(columns[2].mean[1], 10.0);
        QCOMPARE(columns[2].peak, 13.0);
    }

    void theNumberOfStepsKeptIsBounded() {
        StepHistory history;
        for (quint64 i = 1; i <= StepHistory::capacity + 1000; ++i)
            history.add(report(i, 1, 0));
        QCOMPARE(history.size(), StepHistory::capacity);
        QCOMPARE(history.lastNumber(), quint64(StepHistory::capacity + 1000));
    }

    /// Any span, any number of columns, any gaps: never more columns than asked for, every known step of the
    /// span in exactly one column, means and peaks as a plain loop computes them.
    void columnsHoldEveryStepOnce() {
        const quint32 seed = QRandomGenerator::global()->generate();
        qInfo("seed %u", seed);
        QRandomGenerator random(seed);
        for (int round = 0; round < 200; ++round) {
            StepHistory history;
            std::map<quint64, std::pair<int, int>> steps;
            quint64 number = random.bounded(1000u);
            const int count = random.bounded(1, 3000);
            for (int i = 0; i < count; ++i) {
                number +=
                    1 + (random.bounded(10u) == 0 ? random.bounded(50u) : 0); // reports that were dropped
                const int decode = random.bounded(64);
                const int prefill = random.bounded(512);
                history.add(report(number, decode, prefill));
                steps[number] = {decode, prefill};
            }
            const quint64 span = random.bounded(1u, 5000u);
            const int most = random.bounded(2, 300);
            const auto columns = history.view(span, most, values);
            QVERIFY(int(columns.size()) <= most);
            auto step = steps.lower_bound(number >= span ? number - span + 1 : 0);
            for (const StepColumn& column : columns) {
                double decode = 0;
                double prefill = 0;
                double peak = 0;
                QCOMPARE(column.first, step->first);
                for (int i = 0; i < column.steps; ++i, ++step) {
                    QVERIFY(step != steps.end());
                    decode += step->second.first;
                    prefill += step->second.second;
                    peak = std::max(peak, double(step->second.first + step->second.second));
                    if (i == column.steps - 1)
                        QCOMPARE(column.last, step->first);
                }
                QCOMPARE(column.mean[0], decode / column.steps);
                QCOMPARE(column.mean[1], prefill / column.steps);
                QCOMPARE(column.peak, peak);
            }
            QVERIFY(step == steps.end());
        }
    }

    /// A column that is full does not change when steps are added.
    void columnsStandStillWhileTheWindowSlides() {
        StepHistory history;
        std::map<quint64, double> seen;
        for (quint64 i = 1; i <= 3000; ++i) {
            history.add(report(i, int(i % 17), 0));
            if (i % 7)
                continue;
            const auto columns = history.view(1000, 100, values);
            for (size_t c = 1; c + 1 < columns.size(); ++c) {
                const auto [found, isNew] = seen.emplace(columns[c].first, columns[c].mean[0]);
                QVERIFY(isNew || found->second == columns[c].mean[0]);
            }
        }
    }
};

QTEST_GUILESS_MAIN(TestStepHistory)
#include "tst_step_history.moc"
