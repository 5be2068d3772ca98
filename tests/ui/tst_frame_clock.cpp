// The frame clock: it runs while something goes on, at the pace of the window that it watches, and it is the
// only clock of the window.
#include "tests/support/test_data.h"
#include "ui/frame_clock.h"

#include <QDirIterator>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QWidget>
#include <QtTest>

using orrery::ui::FrameClock;

class TestFrameClock : public QObject {
    Q_OBJECT

private slots:
    void runsWhileAnythingIsBusy() {
        FrameClock clock;
        QSignalSpy ticks(&clock, &FrameClock::tick);
        QObject first, second;
        QVERIFY(!clock.running());
        clock.setBusy(&first, true);
        clock.setBusy(&second, true);
        clock.setBusy(&second, true); // said twice counts once
        QVERIFY(clock.running());
        QCOMPARE(clock.interval(), int(FrameClock::active_ms));
        QTRY_VERIFY(ticks.count() > 2);

        clock.setBusy(&second, false);
        QTest::qWait(400); // longer than the clock goes on after the last
        QVERIFY(clock.running());

        clock.setBusy(&first, false);
        QVERIFY(clock.running()); // what came last is drawn too
        ticks.clear();
        QTRY_VERIFY(!clock.running());
        QVERIFY(ticks.count() > 0);
        const auto before = ticks.count();
        QTest::qWait(100);
        QCOMPARE(ticks.count(), before);
    }

    void whatIsDestroyedIsNotBusy() {
        FrameClock clock;
        {
            QObject source;
            clock.setBusy(&source, true);
        }
        QTRY_VERIFY(!clock.running());
        QObject idle;
        clock.setBusy(&idle, false); // was not busy: nothing begins
        QVERIFY(!clock.running());
    }

    void ticksCarryTheTime() {
        FrameClock clock;
        QObject source;
        std::vector<qint64> times;
        connect(&clock, &FrameClock::tick, &source, [&](qint64 now_ns) { times.push_back(now_ns); });
        clock.setBusy(&source, true);
        QTRY_VERIFY(times.size() > 5);
        QVERIFY(std::is_sorted(times.begin(), times.end()));
        QVERIFY(times.back() - times.front() >= 2 * FrameClock::active_ms * 1'000'000LL);
    }

    void isSlowWhileTheWindowIsHidden() {
        QWidget window;
        FrameClock clock;
        clock.setWindow(&window);
        clock.setBusy(&window, true);
        QCOMPARE(clock.interval(), int(FrameClock::hidden_ms));
        QVERIFY(clock.running()); // queues are emptied all the same
        window.show();
        window.activateWindow();
        QTRY_COMPARE(clock.interval(), int(FrameClock::active_ms));
        window.hide();
        QTRY_COMPARE(clock.interval(), int(FrameClock::hidden_ms));
        window.showMinimized();
        QTest::qWait(20);
        QCOMPARE(clock.interval(), int(FrameClock::hidden_ms));
    }

    void isSlowerWhileAnotherWindowIsActive() {
        QWidget window, other;
        FrameClock clock;
        clock.setWindow(&window);
        clock.setBusy(&window, true);
        window.show();
        window.activateWindow();
        QTRY_VERIFY(window.isActiveWindow());
        QTRY_COMPARE(clock.interval(), int(FrameClock::active_ms));
        other.show();
        other.activateWindow();
        QTRY_VERIFY(!window.isActiveWindow());
        QTRY_COMPARE(clock.interval(), int(FrameClock::unfocused_ms));
        QVERIFY(clock.running());
    }

    void followsTheWindowThatTakesTheOldOnesPlace() {
        auto old = std::make_unique<QWidget>();
        QWidget window;
        FrameClock clock;
        QObject source;
        clock.setWindow(old.get());
        clock.setBusy(&source, true);
        clock.setWindow(&window);
        window.show();
        window.activateWindow();
        QTRY_COMPARE(clock.interval(), int(FrameClock::active_ms));
        old.reset();
        window.hide();
        QTRY_COMPARE(clock.interval(), int(FrameClock::hidden_ms));
    }

    /// No file of the window has another timer or animation.
    void isTheOnlyClockInTheSources() {
        static const QRegularExpression timers(
            QStringLiteral("\\b(QTimer|QBasicTimer|QChronoTimer|startTimer|QTimeLine|Q\\w*Animation)\\b"));
        const QString root = QString::fromStdString((orrery::test::source_dir() / "ui").string());
        QDirIterator files(root, {QStringLiteral("*.cpp"), QStringLiteral("*.h")}, QDir::Files,
                           QDirIterator::Subdirectories);
        int read = 0;
        while (files.hasNext()) {
            QFile file(files.next());
            if (file.fileName().contains(QStringLiteral("/frame_clock.")))
                continue;
            QVERIFY(file.open(QIODevice::ReadOnly));
            const auto found = timers.match(QString::fromUtf8(file.readAll()));
            QVERIFY2(!found.hasMatch(),
                     qPrintable(file.fileName() + QStringLiteral(": ") + found.captured()));
            ++read;
        }
        QVERIFY(read > 50);
    }
};

QTEST_MAIN(TestFrameClock)
#include "tst_frame_clock.moc"
