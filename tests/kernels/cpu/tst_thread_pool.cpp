#include "kernels/cpu/thread_pool.h"

#include <QTest>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <vector>

using namespace orrery::kernels::cpu;

/// Every item runs once, a phase sees all that the phases before it did, and no thread is waited for.
class ThreadPoolTest : public QObject {
    Q_OBJECT

private slots:
    void runsEveryItemOnceAndPhasesInOrder_data();
    void runsEveryItemOnceAndPhasesInOrder();
    void doesNotWaitForASleepingWorker();
    void reportsEveryPhase();
    void survivesThreadsThatArriveLate();
    void takesTurnsWithOtherCallers();
};

void ThreadPoolTest::runsEveryItemOnceAndPhasesInOrder_data() {
    QTest::addColumn<int>("threads");
    for (const int threads : {1, 2, 3, 7})
        QTest::addRow("%d threads", threads) << threads;
}

void ThreadPoolTest::runsEveryItemOnceAndPhasesInOrder() {
    QFETCH(int, threads);
    const auto seed = std::random_device{}();
    qInfo("seed %u", seed);
    std::mt19937 random(seed);
    ThreadPool pool(threads);
    QCOMPARE(pool.threads(), threads);
    for (int round = 0; round < 200; ++round) {
        const size_t count = random() % 20 + 1;
        // Plain numbers on purpose: the pool alone orders the accesses, which the thread sanitizer checks.
        std::vector<std::vector<int>> runs(count);
        std::vector<Phase> phases;
        std::atomic<int> disorder{0};
        const auto body = [&runs, &disorder, threads](size_t p) {
            return [&runs, &disorder, p, threads](int64_t first, int64_t last, int thread) {
                if (thread < 0 || thread >= threads)
                    ++disorder;
                if (p > 0)
                    for (const int n : runs[p - 1])
                        disorder += n != 1;
                for (int64_t i = first; i < last; ++i)
                    ++runs[p][static_cast<size_t>(i)];
            };
        };
        std::deque<decltype(body(0))> bodies; // they stay where they are
        for (size_t p = 0; p < count; ++p) {
            const int64_t items = static_cast<int64_t>(random() % 50 + 1);
            runs[p].assign(static_cast<size_t>(items), 0);
            bodies.push_back(body(p));
            phases.push_back(make_phase(bodies.back(), items, static_cast<int64_t>(random() % 4 + 1)));
        }
        pool.run(phases);
        QCOMPARE(disorder.load(), 0);
        for (const auto& phase : runs)
            for (const int n : phase)
                QCOMPARE(n, 1);
        if (round % 50 == 0) // long enough for the workers to fall asleep
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
}

void ThreadPoolTest::doesNotWaitForASleepingWorker() {
    // One worker blocks inside an item of the first phase of a program whose other items can all be run by
    // the others; the program ends as soon as that item does, and until then nothing else is held up.
    ThreadPool pool(3);
    std::atomic<bool> release{false};
    std::atomic<int> others{0};
    std::atomic<bool> all_others_ran{false};
    pool.parallel(20, 1, [&](int64_t first, int64_t, int) {
        if (first == 0) {
            while (!release.load())
                std::this_thread::yield();
            all_others_ran = others.load() == 19;
        } else if (++others == 19) {
            release = true;
        }
    });
    QVERIFY(all_others_ran.load());
}

void ThreadPoolTest::reportsEveryPhase() {
    ThreadPool pool(2);
    const auto nothing = [](int64_t, int64_t, int) {};
    const std::vector<Phase> phases(5, make_phase(nothing, 3, 1));
    std::vector<size_t> seen;
    pool.run(phases, [&seen](size_t phase) { seen.push_back(phase); });
    QCOMPARE(seen, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

void ThreadPoolTest::survivesThreadsThatArriveLate() {
    // More threads than cores and programs of a few nanoseconds: workers keep arriving in programs that
    // have ended or been replaced.
    ThreadPool pool(9);
    int64_t total = 0;
    for (int round = 0; round < 20000; ++round) {
        int64_t mine = 0;
        pool.parallel(1, 1, [&mine, round](int64_t, int64_t, int) { mine = round; });
        total += mine;
    }
    QCOMPARE(total, int64_t{20000} * 19999 / 2);
}

void ThreadPoolTest::takesTurnsWithOtherCallers() {
    // Programs of two phases from three threads: what the first phase leaves behind is what the second finds.
    ThreadPool pool(2);
    std::atomic<int> faults{0};
    const auto call = [&pool, &faults](int64_t mine) {
        for (int round = 0; round < 2000; ++round) {
            std::vector<int64_t> left(8, -1);
            const auto leave = [&left, mine](int64_t first, int64_t last, int) {
                for (int64_t i = first; i < last; ++i)
                    left[static_cast<size_t>(i)] = mine;
            };
            const auto find = [&left, &faults, mine](int64_t, int64_t, int) {
                for (const int64_t found : left)
                    faults += found != mine;
            };
            const Phase phases[] = {make_phase(leave, 8, 1), make_phase(find, 8, 1)};
            pool.run(phases);
        }
    };
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i)
        callers.emplace_back(call, i);
    for (std::thread& caller : callers)
        caller.join();
    QCOMPARE(faults.load(), 0);
}

QTEST_GUILESS_MAIN(ThreadPoolTest)
#include "tst_thread_pool.moc"
