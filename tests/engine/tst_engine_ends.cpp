// How answers end: each for one reason, once, with all of their text.
#include "engine/engine.h"
#include "kernels/error.h"
#include "tests/engine/dictation.h"

#include <QtTest>

#include <limits>

using namespace orrery;
using test::Answered;
using test::Answers;
using namespace test::dictation;

class TestEngineEnds : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { model_ = test::load_tiny(); }

    void an_answer_ends_at_max_tokens();
    void an_answer_ends_when_the_context_is_full();
    void an_answer_ends_at_an_end_token();
    void an_answer_ends_at_a_stop_string();
    void an_answer_ends_when_it_is_cancelled();
    void an_answer_ends_at_its_time_limit();
    void time_limits_of_any_size_are_kept();
    void due_ends_are_reported_without_a_step();
    void an_unfinished_character_is_shown_at_the_end();

private:
    std::shared_ptr<Model> model_;
};

void TestEngineEnds::an_answer_ends_at_max_tokens() {
    Engine engine(model_, checked());
    for (const int most : {0, 1, 2, 17}) {
        Request request = greedy({10, 20}, most);
        request.ignore_eos = true;
        const Answered answer = test::run_all(engine, {request}).at({1, 0});
        QVERIFY(answer.finish == FinishReason::length);
        QCOMPARE(int(answer.tokens.size()), most);
        QCOMPARE(answer.usage.completion_tokens, most);
        QCOMPARE(answer.usage.prompt_tokens, 2);
    }
}

void TestEngineEnds::an_answer_ends_when_the_context_is_full() {
    Engine engine(model_, checked());
    for (const int prompt : {1, 15, 16, 17, 62, 63})
        for (const int most : {-1, 1000}) {
            Request request = greedy(std::vector<TokenId>(size_t(prompt), 9), most);
            request.ignore_eos = true;
            const Answered answer = test::run_all(engine, {request}).at({1, 0});
            QVERIFY(answer.finish == FinishReason::context_full);
            QCOMPARE(int(answer.tokens.size()), 64 - prompt);
        }
}

void TestEngineEnds::an_answer_ends_at_an_end_token() {
    Engine engine(model_, checked());
    Request request = greedy({10}, 20);
    auto spoken = spell("ab");
    spoken.push_back(end_token);
    Answered answer = dictate(engine, request, spoken);
    QVERIFY(answer.finish == FinishReason::stop_token);
    QCOMPARE(answer.tokens, spoken);
    QCOMPARE(answer.text, model_->tokenizer->decode({spoken[0], spoken[1]}, false));

    // Held-back text comes out with the end.
    request.stop = {model_->tokenizer->decode(spell("abc"), false)};
    answer = dictate(engine, request, spoken);
    QVERIFY(answer.finish == FinishReason::stop_token);
    QCOMPARE(answer.text, model_->tokenizer->decode({spoken[0], spoken[1]}, false));

    // It cannot be drawn before min_tokens.
    request = greedy({10}, 20);
    request.min_tokens = 6;
    answer = dictate(engine, request, {end_token});
    QVERIFY(answer.finish == FinishReason::stop_token);
    QCOMPARE(answer.tokens.size(), size_t(7));
    QCOMPARE(std::ranges::count(answer.tokens, end_token), 1);

    request.ignore_eos = true;
    answer = dictate(engine, request, {end_token});
    QVERIFY(answer.finish == FinishReason::length);
    QCOMPARE(std::ranges::count(answer.tokens, end_token), 20);
    QCOMPARE(answer.text, std::string());
}

void TestEngineEnds::an_answer_ends_at_a_stop_string() {
    Engine engine(model_, checked());
    const auto text_of = [&](const std::string& text) {
        return model_->tokenizer->decode(spell(text), false);
    };
    Request request = greedy({10}, 20);
    request.stop = {text_of("zzz"), text_of("bcd")};
    Answered answer = dictate(engine, request, spell("abcbcdee"));
    QVERIFY(answer.finish == FinishReason::stop_string);
    QCOMPARE(answer.text, text_of("abc"));
    QCOMPARE(answer.tokens, spell("abcbcd"));

    // Text that could have been the beginning of one is given out in the end.
    request.max_tokens = 3;
    answer = dictate(engine, request, spell("abcbcdee"));
    QVERIFY(answer.finish == FinishReason::length);
    QCOMPARE(answer.text, text_of("abc"));

    // Nothing stops before min_tokens.
    request.max_tokens = 9;
    request.min_tokens = 7;
    answer = dictate(engine, request, spell("abcdeeebcd"));
    QVERIFY(answer.finish == FinishReason::length);
    QCOMPARE(answer.text, text_of("abcdeeebc"));
    request.max_tokens = 20;
    answer = dictate(engine, request, spell("abcdeeebcd"));
    QVERIFY(answer.finish == FinishReason::stop_string);
    QCOMPARE(answer.text, text_of("abcdeee"));
}

void TestEngineEnds::an_answer_ends_when_it_is_cancelled() {
    EngineConfig config = checked();
    config.max_sequences = 2;
    Engine engine(model_, config);
    std::vector<Request> requests(5, greedy({10, 11}, 30));
    for (Request& request : requests)
        request.ignore_eos = true;
    requests[1].samples = 3;
    requests[2].stop = {"no such text"};
    const Answers answers = test::run_all(engine, requests, [&](int step) {
        if (step == 0)
            engine.cancel(4); // has not even been seen by a step
        if (step == 3) {
            engine.cancel(2);
            engine.cancel(2, FinishReason::disconnected); // too late
            engine.cancel(5, FinishReason::disconnected);
            engine.cancel(99);
        }
    });
    QVERIFY(answers.at({1, 0}).finish == FinishReason::length);
    QVERIFY(answers.at({3, 0}).finish == FinishReason::length);
    QVERIFY(answers.at({4, 0}).finish == FinishReason::cancelled);
    QVERIFY(answers.at({5, 0}).finish == FinishReason::disconnected);
    QCOMPARE(answers.at({5, 0}).tokens.size(), size_t(0));
    for (int sample = 0; sample < 3; ++sample)
        QVERIFY(answers.at({2, sample}).finish == FinishReason::cancelled);
    QCOMPARE(answers.at({2, 0}).tokens.size(), size_t(3));
}

void TestEngineEnds::an_answer_ends_at_its_time_limit() {
    EngineConfig config = checked();
    config.max_sequences = 1;
    Engine engine(model_, config);
    std::vector<Request> requests(3, greedy({10, 11}, 30));
    for (Request& request : requests)
        request.ignore_eos = true;
    requests[0].time_limit = std::chrono::milliseconds(50);
    requests[1].time_limit = std::chrono::milliseconds(0); // while it waits
    requests[2].time_limit = std::chrono::hours(1);
    const Answers answers = test::run_all(engine, requests, [](int step) {
        if (step == 4)
            QThread::msleep(60);
    });
    QVERIFY(answers.at({1, 0}).finish == FinishReason::time_limit);
    QCOMPARE(answers.at({1, 0}).tokens.size(), size_t(4));
    QVERIFY(answers.at({2, 0}).finish == FinishReason::time_limit);
    QCOMPARE(answers.at({2, 0}).tokens.size(), size_t(0));
    QVERIFY(answers.at({3, 0}).finish == FinishReason::length);
}

void TestEngineEnds::time_limits_of_any_size_are_kept() {
    using std::chrono::milliseconds;
    Engine engine(model_, checked());
    std::vector<Request> requests(4, greedy({10, 11}, 3));
    for (Request& request : requests)
        request.ignore_eos = true;
    requests[0].time_limit = milliseconds::max();
    requests[1].time_limit = std::chrono::hours(24 * 365 * 200);
    requests[2].time_limit = milliseconds(-5);
    requests[3].time_limit = milliseconds::min();
    const Answers answers = test::run_all(engine, requests);
    QVERIFY(answers.at({1, 0}).finish == FinishReason::length);
    QVERIFY(answers.at({2, 0}).finish == FinishReason::length);
    QVERIFY(answers.at({3, 0}).finish == FinishReason::time_limit);
    QVERIFY(answers.at({4, 0}).finish == FinishReason::time_limit);
}

void TestEngineEnds::due_ends_are_reported_without_a_step() {
    Engine engine(model_, checked());
    std::vector<TokenDelta> deltas;
    QVERIFY(!engine.next_deadline());
    QVERIFY(engine.end_due(deltas) == nullptr);
    const auto start = std::chrono::steady_clock::now();
    Request request = greedy(std::vector<TokenId>(20, 9), 30);
    request.ignore_eos = true;
    engine.add(1, request);
    Request limited = request;
    limited.time_limit = std::chrono::milliseconds(30);
    engine.add(2, limited);
    limited.time_limit = std::chrono::hours(1);
    engine.add(3, limited);
    engine.add(4, greedy({}, 4)); // refused
    QVERIFY(*engine.next_deadline() >= start + std::chrono::milliseconds(30));
    QVERIFY(*engine.next_deadline() < start + std::chrono::minutes(1));

    const StepReport* report = engine.end_due(deltas);
    QVERIFY(report != nullptr);
    QCOMPARE(report->number, uint64_t(1));
    QCOMPARE(report->waiting, 3);
    QCOMPARE(deltas.size(), size_t(1));
    QVERIFY(deltas[0].finish == FinishReason::rejected && deltas[0].request == 4 && deltas[0].step == 1);
    QVERIFY(engine.end_due(deltas) == nullptr);
    QCOMPARE(engine.step(deltas).running, 3);

    QThread::msleep(40);
    deltas.clear();
    report = engine.end_due(deltas);
    QVERIFY(report != nullptr);
    QCOMPARE(report->number, uint64_t(3));
    QCOMPARE(report->running, 2);
    QVERIFY(report->rows.empty() && !report->block_events.empty());
    QCOMPARE(deltas.size(), size_t(1));
    QVERIFY(deltas[0].finish == FinishReason::time_limit && deltas[0].request == 2);
    QVERIFY(*engine.next_deadline() > start + std::chrono::minutes(50));
    engine.cancel_all();
    deltas.clear();
    report = engine.end_due(deltas);
    QVERIFY(report != nullptr && report->running == 0 && report->blocks_held == 0);
    QCOMPARE(deltas.size(), size_t(2));
    QVERIFY(engine.idle());
    QVERIFY(!engine.next_deadline());
}

void TestEngineEnds::an_unfinished_character_is_shown_at_the_end() {
    // The collector compares the text with the tokens'; here it matters that there is any.
    Engine engine(model_, checked());
    const auto byte_token = [&](unsigned char byte) {
        for (TokenId token = 0; token < model_->config.vocab; ++token)
            if (model_->tokenizer->bytes(token, false) == std::string(1, char(byte)))
                return token;
        return -1;
    };
    const TokenId begin = byte_token(0xc3), rest = byte_token(0xa9);
    QVERIFY(begin >= 0 && rest >= 0);
    QCOMPARE(dictate(engine, greedy({10}, 2), {begin, rest}).text, std::string("\xc3\xa9"));
    QCOMPARE(dictate(engine, greedy({10}, 1), {begin}).text, std::string("\xef\xbf\xbd"));
    QCOMPARE(dictate(engine, greedy({10}, 9), {begin, end_token}).text, std::string("\xef\xbf\xbd"));
}

QTEST_GUILESS_MAIN(TestEngineEnds)
#include "tst_engine_ends.moc"
