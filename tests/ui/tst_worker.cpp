// Work off the window's thread: in order, delivered while the receiver exists, and never waited for.
#include "ui/worker.h"

#include <QSemaphore>
#include <QThread>
#include <QtTest>

#include <atomic>
#include <memory>
#include <vector>

using namespace orrery::ui;
using namespace std::chrono_literals;

class TestWorker : public QObject {
    Q_OBJECT

private slots:
    void jobsRunInOrderOnAnotherThread() {
        std::vector<int> done;
        QSemaphore last;
        QThread* thread = nullptr;
        Worker worker;
        for (int i = 0; i < 100; ++i)
            worker.post([&done, i] { done.push_back(i); });
        worker.post([&] {
            thread = QThread::currentThread();
            last.release();
        });
        QVERIFY(last.tryAcquire(1, 20'000));
        QVERIFY(thread != QThread::currentThread());
        QCOMPARE(done.size(), size_t(100));
        QVERIFY(std::is_sorted(done.begin(), done.end()));
    }

    /// The owner goes while a job runs: the job ends by itself, what waits behind it is dropped, and all that
    /// jobs hold ends on the worker's thread.
    void theOwnersEndWaitsForNothing() {
        struct Held {
            std::atomic<QThread*>* where;
            ~Held() { *where = QThread::currentThread(); }
        };
        std::atomic<QThread*> heldByRunning = nullptr, heldByWaiting = nullptr;
        std::atomic<bool> ran = false, dropped = true;
        QSemaphore begun, go;
        {
            Worker worker;
            auto first = std::make_shared<Held>(&heldByRunning);
            auto second = std::make_shared<Held>(&heldByWaiting);
            worker.post([&, held = std::move(first)] {
                begun.release();
                go.acquire();
                ran = true;
            });
            worker.post([&, held = std::move(second)] { dropped = false; });
            begun.acquire();
        }
        QVERIFY(!ran);
        QVERIFY(!Worker::waitForEnded(0ms));
        go.release();
        QVERIFY(Worker::waitForEnded(20s));
        QVERIFY(ran && dropped);
        QVERIFY(heldByRunning && heldByRunning != QThread::currentThread());
        QVERIFY(heldByWaiting && heldByWaiting != QThread::currentThread());
    }

    void anIdleWorkerEndsAtOnce() {
        for (int i = 0; i < 100; ++i)
            Worker worker;
        QVERIFY(Worker::waitForEnded(20s));
    }

    void mailCallsOnTheReceiversThread() {
        QObject receiver;
        Mailbox box(&receiver);
        std::vector<int> got;
        QThread* thread = nullptr;
        Worker worker;
        worker.post([box, &got, &thread] {
            for (int i = 0; i < 10; ++i)
                box.post([&got, &thread, i] {
                    got.push_back(i);
                    thread = QThread::currentThread();
                });
        });
        QTRY_COMPARE(got.size(), size_t(10));
        QVERIFY(std::is_sorted(got.begin(), got.end()));
        QCOMPARE(thread, QThread::currentThread());
    }

    void nothingReachesAReceiverThatHasGone() {
        int calls = 0;
        auto receiver = std::make_unique<QObject>();
        Mailbox box(receiver.get());
        box.post([&calls] { ++calls; });
        box.close();
        receiver.reset(); // with a call on its way
        box.post([&calls] { ++calls; });
        QCoreApplication::processEvents();
        QCOMPARE(calls, 0);
    }

    /// Posting and closing at the same time, many times.
    void closingRacesWithPosting() {
        for (int round = 0; round < 200; ++round) {
            std::atomic<bool> go = false;
            Worker worker;
            auto receiver = std::make_unique<QObject>();
            Mailbox box(receiver.get());
            auto alive = std::make_shared<int>(0);
            worker.post([box, alive, &go] {
                go = true;
                for (int i = 0; i < 50; ++i)
                    box.post([alive] { ++*alive; });
            });
            while (!go)
                QThread::yieldCurrentThread();
            box.close();
            receiver.reset();
            QSemaphore done;
            worker.post([&done] { done.release(); });
            done.acquire();
            QCoreApplication::processEvents();
            QCOMPARE(*alive, 0);
        }
    }

    void cleanupTestCase() { QVERIFY(Worker::waitForEnded(20s)); }
};

QTEST_GUILESS_MAIN(TestWorker)
#include "tst_worker.moc"
