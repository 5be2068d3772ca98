#include "ui/charts/chart_strip.h"
#include "ui/frame_clock.h"

#include <QAbstractItemModelTester>
#include <QChartView>
#include <QLineSeries>
#include <QTableView>
#include <QToolButton>
#include <QtTest>

using namespace orrery;
using namespace orrery::ui;

class TestChartStrip : public QObject {
    Q_OBJECT

    static StepReport report(quint64 number) {
        StepReport r;
        r.number = number;
        r.forward_ns = 8'000'000 + qint64(number % 7) * 100'000;
        r.sample_ns = 200'000;
        r.schedule_ns = 4'000;
        r.prepare_ns = 9'000;
        r.publish_ns = 3'000;
        r.decode_tokens = 3;
        r.prefill_tokens = number % 20 == 0 ? 128 : 0;
        r.blocks_total = 1000;
        r.blocks_held = 200;
        r.blocks_cached = 300;
        r.blocks_free = 500;
        return r;
    }

    static std::vector<StepReport> reports(quint64 from, quint64 to) {
        std::vector<StepReport> result;
        for (quint64 i = from; i <= to; ++i)
            result.push_back(report(i));
        return result;
    }

    struct Fixture {
        FrameClock clock;
        EngineSession session{&clock};
        QWidget window;
        ChartStrip* strip = new ChartStrip(&session, &window);

        Fixture() {
            clock.setWindow(&window);
            strip->resize(1200, 220);
            window.resize(1200, 220);
            window.show();
            (void)QTest::qWaitForWindowExposed(&window);
        }
    };

private slots:
    void withoutReportsNothingIsDrawn() {
        Fixture f;
        QVERIFY(f.strip->stepCost()->columns().empty());
        QVERIFY(!f.strip->stepCost()->findChild<QChartView*>()->isVisible());
    }

    void reportsAreDrawnOnTheClock() {
        Fixture f;
        f.strip->addReports(reports(1, 100), 0);
        QTRY_COMPARE(f.strip->stepCost()->columns().size(), size_t(100));
        const StepColumn& column = f.strip->stepCost()->columns()[6];
        QCOMPARE(column.mean[0], 8.0);
        QCOMPARE(column.mean[1], 0.2);
        QCOMPARE(f.strip->kvBlocks()->columns()[0].mean[0], 200.0);
        QCOMPARE(f.strip->kvBlocks()->columns()[0].total(), 1000.0);
        QCOMPARE(f.strip->batch()->columns()[19].mean[1], 128.0);
        QVERIFY(f.strip->stepCost()->findChild<QChartView*>()->isVisible());
    }

    void noSeriesEverHasMoreThanSixHundredPoints() {
        Fixture f;
        for (const quint64 span : {60, 240, 1000, 4000, 16000}) {
            f.strip->stepCost()->setSpan(span);
            f.strip->addReports(reports(1, 20000), 0);
            QTRY_VERIFY(!f.strip->stepCost()->columns().empty());
            for (StepChart* chart : {f.strip->stepCost(), f.strip->kvBlocks(), f.strip->batch()}) {
                QCOMPARE(chart->span(), span);
                QVERIFY(chart->columns().size() <= size_t(StepChart::max_columns));
                for (const QLineSeries* series : chart->findChildren<QLineSeries*>())
                    QVERIFY(series->count() <= 600);
            }
            f.strip->clear();
        }
    }

    void spaceHoldsThePictureAndSaysSo() {
        Fixture f;
        f.strip->addReports(reports(1, 50), 0);
        QTRY_COMPARE(f.strip->batch()->columns().size(), size_t(50));
        QTest::keyClick(f.strip->batch(), Qt::Key_Space);
        QVERIFY(f.strip->batch()->paused());
        f.strip->addReports(reports(51, 80), 0);
        QTRY_COMPARE(f.strip->stepCost()->columns().size(), size_t(80));
        QCOMPARE(f.strip->batch()->columns().size(), size_t(50));
        QTest::keyClick(f.strip->batch(), Qt::Key_Space);
        QCOMPARE(f.strip->batch()->columns().size(), size_t(80));
    }

    void theTableHoldsTheSameNumbers() {
        Fixture f;
        f.strip->addReports(reports(1, 50), 0);
        QTRY_COMPARE(f.strip->kvBlocks()->columns().size(), size_t(50));
        QTest::keyClick(f.strip->kvBlocks(), Qt::Key_T);
        auto* table = f.strip->kvBlocks()->findChild<QTableView*>();
        QTRY_VERIFY(table->isVisible());
        QAbstractItemModelTester tester(table->model(),
                                        QAbstractItemModelTester::FailureReportingMode::QtTest);
        QCOMPARE(table->model()->rowCount(), 50);
        QCOMPARE(table->model()->index(0, 0).data().toString(), QStringLiteral("50"));
        QCOMPARE(table->model()->index(0, 1).data().toString(), QStringLiteral("200"));
        QTest::keyClick(f.strip->kvBlocks(), Qt::Key_T);
        QVERIFY(!table->isVisible());
    }

    void aBandCanBeHiddenInTheLegend() {
        Fixture f;
        f.strip->addReports(reports(1, 50), 0);
        QTRY_COMPARE(f.strip->kvBlocks()->columns().size(), size_t(50));
        auto* button = f.strip->kvBlocks()->findChildren<QToolButton*>().at(1);
        QTest::mouseClick(button, Qt::LeftButton);
        QVERIFY(!f.strip->kvBlocks()->bandVisible(1));
        QVERIFY(!button->isChecked());
        QTest::mouseClick(button, Qt::LeftButton);
        QVERIFY(f.strip->kvBlocks()->bandVisible(1));
    }

    void csvHasEveryColumn() {
        Fixture f;
        f.strip->addReports(reports(1, 10), 0);
        QTRY_COMPARE(f.strip->batch()->columns().size(), size_t(10));
        const QStringList lines = f.strip->batch()->csv().trimmed().split(QLatin1Char('\n'));
        QCOMPARE(lines.size(), 11);
        QVERIFY(lines[1].startsWith(QStringLiteral("1,1,1,3,0,0,")));
    }

    void anotherModelBeginsWithEmptyPictures() {
        Fixture f;
        f.strip->addReports(reports(1, 10), 0);
        QTRY_COMPARE(f.strip->batch()->columns().size(), size_t(10));
        emit f.session.modelLoaded({});
        QVERIFY(f.strip->batch()->columns().empty());
    }
};

QTEST_MAIN(TestChartStrip)
#include "tst_chart_strip.moc"
