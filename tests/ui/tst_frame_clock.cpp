// The frame clock: it runs while something goes on in a window that can be seen, and only then.
#include "ui/frame_clock.h"

#include <QSignalSpy>
#include <QWidget>
#include <QtTest>

using orrery::ui::FrameClock;

class TestFrameClock : public QObject {
    Q_OBJECT

private slots:
    void runsWhileBusyAndSeen() {
        QWidget window;
        FrameClock clock(&window);
        QSignalSpy ticks(&clock, &FrameClock::tick);
        QVERIFY(!clock.running());

        clock.setBusy(true);
        QVERIFY(!clock.running()); // nobody would see it
        window.show();
        QTRY_VERIFY(clock.running());
        QTRY_VERIFY(ticks.count() > 2);

        window.hide();
        QTRY_VERIFY(!clock.running());
        window.show();
        QTRY_VERIFY(clock.running());

        clock.setBusy(false);
        QVERIFY(clock.running()); // what came last is drawn too
        ticks.clear();
        QTRY_VERIFY(!clock.running());
        QVERIFY(ticks.count() > 0);
        const auto before = ticks.count();
        QTest::qWait(100);
        QCOMPARE(ticks.count(), before);
    }

    void isSlowerWhileAnotherWindowIsActive() {
        QWidget window, other;
        FrameClock clock(&window);
        clock.setBusy(true);
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
};

QTEST_MAIN(TestFrameClock)
#include "tst_frame_clock.moc"
