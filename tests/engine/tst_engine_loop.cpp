// The engine's thread and its queues: nothing is lost, no side waits for the other.
#include "engine/engine_loop.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/loop_reader.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

using namespace orrery;
using test::Answers;

namespace {

EngineConfig config_of_loop() {
    EngineConfig config;
    config.context = 128;
    config.block_size = 4;
    config.blocks = 60;
    config.max_step_tokens = 32;
    config.max_sequences = 8;
    config.check = true;
    return config;
}

Request request_of(int kind) {
    Request request;
    for (int i = 0; i < 3 + kind % 11; ++i)
        request.prompt.push_back(5 + (i * kind) % 90);
    request.max_tokens = 1 + kind % 13;
    request.ignore_eos = true;
    request.samples = 1 + (kind % 5 == 0);
    request.sampling.seed = uint64_t(kind);
    return request;
}

double cpu_seconds() {
    return double(std::clock()) / CLOCKS_PER_SEC;
}

} // namespace

class TestEngineLoop : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { model_ = test::load_tiny(); }

    void answers_are_those_of_the_engine();
    void many_threads_may_ask_at_once();
    void a_paused_engine_takes_single_steps();
    void commands_are_taken_while_paused();
    void time_limits_pass_while_paused();
    void ends_while_paused_reach_the_pictures();
    void steps_that_make_no_sense_are_none();
    void unread_reports_are_dropped_and_counted();
    void the_end_of_the_loop_ends_everything();
    void an_idle_engine_sleeps();
    void a_wakeup_that_was_replaced_is_over();
    void a_wakeup_can_replace_itself();
    void wrong_parameters_are_refused_where_they_are_given();
    void an_id_in_use_is_dropped();

private:
    std::unique_ptr<Engine> engine() const { return std::make_unique<Engine>(model_, config_of_loop()); }
    std::shared_ptr<Model> model_;
};

void TestEngineLoop::answers_are_those_of_the_engine() {
    std::vector<Request> requests;
    for (int kind = 0; kind < 40; ++kind)
        requests.push_back(request_of(kind));
    const auto plain = engine();
    const Answers expected = test::run_all(*plain, requests);

    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    for (const Request& request : requests)
        reader.ask(request);
    QVERIFY(reader.read_until(0));
    reader.collector().check_complete(*model_);
    const Answers& answers = reader.collector().answers();
    QCOMPARE(answers.size(), expected.size());
    for (const auto& [key, answer] : expected)
        QVERIFY2(answers.at(key) == answer, answer.describe().c_str());
}

void TestEngineLoop::many_threads_may_ask_at_once() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    std::mutex mutex;
    std::vector<std::pair<RequestId, Request>> asked;
    std::vector<std::thread> threads;
    const uint64_t seed = test::test_seed();
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            test::Random random(seed + uint64_t(t));
            std::vector<RequestId> mine;
            for (int i = 0; i < 30; ++i) {
                const Request request = request_of(random.below(1000));
                const RequestId id = new_request_id();
                loop.submit(id, request);
                mine.push_back(id);
                {
                    const std::lock_guard lock(mutex);
                    asked.emplace_back(id, request);
                }
                switch (random.below(8)) {
                case 0:
                    loop.cancel(mine[size_t(random.below(int(mine.size())))]);
                    break;
                case 1:
                    loop.retune(id, request.sampling);
                    break;
                case 2:
                    loop.set_budgets(random.between(1, 40), random.between(1, 10), random.below(8));
                    break;
                case 3:
                    loop.pause();
                    loop.run_steps(2);
                    loop.resume();
                    break;
                case 4: {
                    std::vector<StepReport> reports;
                    loop.take_reports(reports);
                    break;
                }
                case 5:
                    loop.set_profiling(random.chance(0.5));
                    break;
                default:
                    break;
                }
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    std::set<RequestId> ids;
    for (const auto& [id, request] : asked) {
        reader.expect(id, request);
        ids.insert(id);
    }
    QCOMPARE(ids.size(), asked.size()); // new_request_id() never repeats
    reader.read();                      // what came before the first wakeup was set
    QVERIFY(reader.read_until(0));
    reader.collector().check_complete(*model_);
}

void TestEngineLoop::a_paused_engine_takes_single_steps() {
    EngineLoop loop(engine());
    loop.pause();
    QVERIFY(loop.paused());
    Request request = request_of(3);
    request.max_tokens = 10;
    loop.submit(new_request_id(), request);
    std::vector<StepReport> reports;
    QThread::msleep(50);
    loop.take_reports(reports);
    QCOMPARE(reports.size(), size_t(0));

    loop.run_steps(3);
    QTRY_VERIFY((loop.take_reports(reports), reports.size() >= 3));
    QThread::msleep(50);
    loop.take_reports(reports);
    QCOMPARE(reports.size(), size_t(3));
    for (size_t i = 0; i < 3; ++i)
        QCOMPARE(reports[i].number, uint64_t(i + 1));
    QCOMPARE(loop.take_deltas().size(), size_t(3));

    loop.resume();
    QVERIFY(!loop.paused());
    QTRY_VERIFY((loop.take_reports(reports), reports.size() == 10));
}

void TestEngineLoop::commands_are_taken_while_paused() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    loop.pause();
    loop.run_steps(100); // nothing to run: not saved up for later
    const Request request = request_of(12);
    const RequestId first = reader.ask(request), second = reader.ask(request);
    loop.cancel(first);
    QVERIFY(reader.read_until(1));
    QVERIFY(reader.collector().answers().at({first, 0}).finish == FinishReason::cancelled);
    QThread::msleep(30);
    reader.read();
    QCOMPARE(reader.collector().answers().size(), size_t(1));
    std::vector<StepReport> reports;
    loop.take_reports(reports);
    QCOMPARE(reports.size(), size_t(1)); // of the end
    QCOMPARE(reports[0].waiting, 1);
    QVERIFY(reports[0].rows.empty());
    loop.resume();
    QVERIFY(reader.read_until(0));
    QVERIFY(reader.collector().answers().at({second, 0}).finish == FinishReason::length);
}

void TestEngineLoop::time_limits_pass_while_paused() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    loop.pause();
    Request request = request_of(12), limited = request;
    limited.time_limit = std::chrono::milliseconds(40);
    Request unlimited = request;
    unlimited.time_limit = std::chrono::milliseconds::max();
    const RequestId first = reader.ask(limited), second = reader.ask(unlimited);
    // No command comes meanwhile.
    QVERIFY(reader.read_until(1));
    const test::Answered answer = reader.collector().answers().at({first, 0});
    QVERIFY(answer.finish == FinishReason::time_limit);
    QVERIFY(answer.timings.finished_ns >= 40'000'000);
    std::vector<StepReport> reports;
    QTRY_VERIFY((loop.take_reports(reports), !reports.empty()));
    QCOMPARE(reports.size(), size_t(1));
    QCOMPARE(reports[0].waiting, 1);
    loop.resume();
    QVERIFY(reader.read_until(0));
    QVERIFY(reader.collector().answers().at({second, 0}).finish == FinishReason::length);
}

void TestEngineLoop::ends_while_paused_reach_the_pictures() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    loop.pause();
    Request request = request_of(5); // of two samples
    QCOMPARE(request.samples, 2);
    request.max_tokens = 50;
    const RequestId first = reader.ask(request), second = reader.ask(request);
    loop.run_steps(3);
    std::vector<StepReport> reports;
    QTRY_VERIFY((loop.take_reports(reports), reports.size() >= 3));
    const StepReport before = reports.back();
    QCOMPARE(before.running, 4);
    reports.clear();

    loop.cancel(first);
    QVERIFY(reader.read_until(2));
    QTRY_VERIFY((loop.take_reports(reports), !reports.empty()));
    QCOMPARE(reports.size(), size_t(1));
    const StepReport& after = reports.front();
    QCOMPARE(after.number, before.number + 1);
    QCOMPARE(after.running, 2);
    QCOMPARE(after.waiting, 0);
    QVERIFY(after.blocks_held < before.blocks_held);
    QCOMPARE(after.blocks_free + after.blocks_cached + after.blocks_held, after.blocks_total);
    QCOMPARE(after.prefill_tokens + after.decode_tokens + after.generated_tokens, 0);
    QVERIFY(after.rows.empty() && after.weight_bytes == 0 && after.forward_ns == 0);
    QVERIFY(std::ranges::any_of(after.block_events, [&](const BlockEvent& event) {
        return event.kind == BlockEventKind::freed && event.request == first;
    }));
    QVERIFY(after.duration_ns > 0);

    // A command that ends nothing makes no report.
    loop.retune(second, request.sampling);
    QThread::msleep(30);
    reports.clear();
    loop.take_reports(reports);
    QCOMPARE(reports.size(), size_t(0));
    loop.cancel(second);
    QVERIFY(reader.read_until(0));
}

void TestEngineLoop::steps_that_make_no_sense_are_none() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    loop.pause();
    const Request request = request_of(12);
    const RequestId id = reader.ask(request);
    loop.run_steps(-5);
    loop.run_steps(0);
    loop.retune(id, request.sampling);
    QThread::msleep(30);
    reader.read();
    QCOMPARE(reader.collector().answers().size(), size_t(0));
    loop.run_steps(2);
    QTRY_VERIFY((reader.read(), !reader.collector().answers().empty()));
    loop.resume();
    QVERIFY(reader.read_until(0));
    reader.collector().check_complete(*model_);
}

void TestEngineLoop::unread_reports_are_dropped_and_counted() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    // 400 requests of 13 tokens, one at a time: more than 5,000 steps.
    loop.set_budgets(32, 1, 0);
    for (int i = 0; i < 400; ++i) {
        Request request = request_of(1);
        request.max_tokens = 13;
        reader.ask(request);
    }
    QVERIFY(reader.read_until(0));
    std::vector<StepReport> reports;
    uint64_t dropped = 0;
    QTRY_VERIFY(
        (dropped += loop.take_reports(reports), !reports.empty() && reports.back().number >= 400 * 13));
    QVERIFY(dropped > 0);
    QCOMPARE(dropped + reports.size(), reports.back().number);
    for (size_t i = 1; i < reports.size(); ++i)
        QCOMPARE(reports[i].number, reports[i - 1].number + 1);
    reports.clear();
    QCOMPARE(loop.take_reports(reports), uint64_t(0));
    QCOMPARE(reports.size(), size_t(0));
}

void TestEngineLoop::the_end_of_the_loop_ends_everything() {
    // Every request ends, also where it is not waited for: the last deltas come while the loop goes down.
    std::vector<TokenDelta> deltas;
    test::Collector collector;
    std::atomic<int> wakeups{0};
    {
        EngineLoop loop(engine());
        EngineLoop* const reach = &loop;
        loop.set_wakeup([&, reach] {
            wakeups += 1;
            for (TokenDelta& delta : reach->take_deltas())
                deltas.push_back(std::move(delta));
        });
        for (int kind = 0; kind < 20; ++kind) {
            Request request = request_of(kind);
            request.max_tokens = 100;
            const RequestId id = new_request_id();
            loop.submit(id, request);
            collector.expect(id, request);
        }
        QTRY_VERIFY(wakeups > 3);
        loop.pause();
    }
    collector.take(deltas);
    collector.check_complete(*model_);
    QVERIFY(std::ranges::any_of(collector.answers(), [](const auto& entry) {
        return entry.second.finish == FinishReason::cancelled;
    }));
}

void TestEngineLoop::an_idle_engine_sleeps() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    const Request request = request_of(4);
    reader.ask(request);
    QVERIFY(reader.read_until(0));
    QThread::msleep(20);
    double used = cpu_seconds();
    QThread::msleep(300);
    used = cpu_seconds() - used;
    QVERIFY2(used < 0.1, qPrintable(QString::number(used)));
    loop.pause();
    loop.submit(new_request_id(), request);
    QThread::msleep(20);
    used = cpu_seconds();
    QThread::msleep(300);
    used = cpu_seconds() - used;
    QVERIFY2(used < 0.1, qPrintable(QString::number(used)));
}

void TestEngineLoop::a_wakeup_that_was_replaced_is_over() {
    // Each wakeup writes to an object that is gone soon after set_wakeup() has returned: the thread and the
    // address sanitizer see every call that comes too late; the flag sees it without them.
    EngineLoop loop(engine());
    loop.set_budgets(32, 4, 0);
    std::atomic<int> calls{0};
    for (int round = 0; round < 300; ++round) {
        struct Reader {
            std::atomic<bool> alive{true};
            int woken = 0;
        };
        auto reader = std::make_unique<Reader>();
        std::atomic<bool> too_late{false}, running{false};
        loop.set_wakeup([&, read = reader.get()] {
            running = true;
            read->woken += 1;
            if (round % 10 == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(3));
            too_late = too_late || !read->alive;
            calls += 1;
        });
        Request request = request_of(round);
        request.samples = 1;
        loop.take_deltas();
        loop.submit(new_request_id(), request);
        while (round % 10 == 0 && !running) { // it is in the middle of it then
            loop.take_deltas();
            std::this_thread::yield();
        }
        loop.set_wakeup({});
        reader->alive = false;
        reader->woken = 0;
        reader.reset();
        QVERIFY(!too_late);
    }
    QVERIFY(calls >= 30);
}

void TestEngineLoop::a_wakeup_can_replace_itself() {
    EngineLoop loop(engine());
    std::atomic<int> first{0}, second{0};
    loop.set_wakeup([&, kept = std::make_shared<int>(1)] {
        loop.set_wakeup([&second] { second += 1; });
        first += *kept; // what the wakeup owns is there until it returns
    });
    Request request = request_of(12);
    loop.submit(new_request_id(), request);
    QTRY_COMPARE(int(first), 1);
    loop.take_deltas();
    loop.submit(new_request_id(), request);
    QTRY_VERIFY((loop.take_deltas(), second > 0));
    loop.set_wakeup({});
    QCOMPARE(int(first), 1);
}

void TestEngineLoop::wrong_parameters_are_refused_where_they_are_given() {
    EngineLoop loop(engine());
    SamplingParams wrong;
    wrong.top_p = 2;
    QVERIFY_EXCEPTION_THROWN(loop.retune(1, wrong), Error);
}

void TestEngineLoop::an_id_in_use_is_dropped() {
    EngineLoop loop(engine());
    test::LoopReader reader(loop);
    loop.pause();
    const Request request = request_of(12);
    const RequestId id = reader.ask(request);
    loop.submit(id, request);
    loop.resume();
    QVERIFY(reader.read_until(0)); // the first one ends once, as if nothing had been
    QTest::qWait(20);
    reader.read(); // and nothing follows
    reader.collector().check_complete(*model_);
}

QTEST_GUILESS_MAIN(TestEngineLoop)
#include "tst_engine_loop.moc"
