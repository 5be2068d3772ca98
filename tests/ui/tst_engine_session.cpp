// The session: loads, failures, requests and their ends, with a real engine on a tiny model.
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"
#include "tests/ui/clocked_session.h"

#include <QFileInfo>
#include <QSignalSpy>
#include <QTimer>
#include <QtTest>

#include <fstream>

using namespace orrery;
using namespace orrery::ui;
using State = EngineSession::State;
using test::ClockedSession;

namespace {

constexpr TokenId end_of_turn = 2; // of the tiny model

QString tinyPath(uint64_t seed = 1) {
    return QString::fromStdString(test::tiny_model({.seed = seed, .context_length = 8192}).string());
}

/// A request that goes on until it is stopped: the end token is forbidden.
ChatRequest endlessRequest() {
    ChatRequest request;
    request.messages = {{"user", "hello"}};
    request.sampling.seed = 7;
    request.sampling.logit_bias = {{end_of_turn, -1e9f}, {0, -1e9f}};
    return request;
}

TokenId tokenOf(char c) {
    return test::tiny_first_byte + static_cast<unsigned char>(c);
}

/// Collects what a session says about requests.
class Listener : public QObject {
public:
    explicit Listener(EngineSession& session) {
        connect(&session, &EngineSession::deltas, this, [this](const std::vector<AnswerDelta>& deltas) {
            for (const AnswerDelta& delta : deltas) {
                text[delta.request] += delta.text;
                if (delta.token)
                    ++tokens[delta.request];
                if (delta.finish != FinishReason::none) {
                    ++ends[delta.request];
                    last[delta.request] = delta;
                }
            }
        });
    }

    std::map<RequestId, std::string> text;
    std::map<RequestId, int> tokens;
    std::map<RequestId, int> ends;
    std::map<RequestId, AnswerDelta> last;
};

} // namespace

class TestEngineSession : public QObject {
    Q_OBJECT

private slots:
    void loads() {
        ClockedSession session;
        QSignalSpy loaded(&session, &EngineSession::modelLoaded);
        QSignalSpy progress(&session, &EngineSession::loadProgress);
        QCOMPARE(session.state(), State::Empty);
        session.loadModel(tinyPath());
        QCOMPARE(session.state(), State::Loading);
        QVERIFY(loaded.wait(20'000));
        QCOMPARE(session.state(), State::Ready);
        const ModelInfo& info = session.model();
        QCOMPARE(info.path, tinyPath());
        QCOMPARE(info.architecture, QStringLiteral("llama"));
        QCOMPARE(info.format, QStringLiteral("F32"));
        QCOMPARE(info.contextTokens, 8192);
        QVERIFY(info.hasChatTemplate);
        QVERIFY(!info.device.isEmpty() && info.threads > 0);
        QVERIFY(info.weightBytes > 0 && info.fileBytes > info.weightBytes / 2);
        QVERIFY(progress.count() > 0);
        QCOMPARE(progress.last().at(0), progress.last().at(1)); // it ends at all bytes

        session.unload();
        QCOMPARE(session.state(), State::Empty);
        QVERIFY(!session.hasModel());
        QVERIFY(session.model().name.isEmpty());
    }

    void submitsStreamsAndEnds() {
        ClockedSession session;
        load(session);
        Listener heard(session);
        QSignalSpy started(&session, &EngineSession::requestStarted);
        QSignalSpy activity(&session, &EngineSession::activityChanged);
        ChatRequest request = endlessRequest();
        request.maxTokens = 100;
        const RequestId number = session.submit(request);
        QVERIFY(number != 0);
        QCOMPARE(session.activeRequests(), 1);
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(started.count(), 1);
        QVERIFY(started.first().at(1).toInt() > 5);
        QCOMPARE(heard.last[number].finish, FinishReason::length);
        QCOMPARE(heard.last[number].usage.completion_tokens, 100);
        QCOMPARE(heard.tokens[number], 100);
        QVERIFY(!heard.text[number].empty());
        QCOMPARE(session.activeRequests(), 0);
        QCOMPARE(activity.last().at(0).toInt(), 0);

        // The same seed says the same again.
        const RequestId again = session.submit(request);
        QVERIFY(again != number);
        QTRY_COMPARE(heard.ends[again], 1);
        QCOMPARE(heard.text[again], heard.text[number]);
    }

    /// One number for a request from submit() to a block event: in every report of every engine.
    void reportsCarryTheRequestsNumbers() {
        ClockedSession other;
        load(other);
        const RequestId elsewhere = other.submit(endlessRequest());
        ClockedSession session;
        load(session);
        Listener heard(session);
        std::vector<StepReport> reports;
        quint64 dropped = 0;
        connect(&session, &EngineSession::reports, &session,
                [&](const std::vector<StepReport>& some, quint64 lost) {
                    reports.insert(reports.end(), some.begin(), some.end());
                    dropped += lost;
                });
        ChatRequest request = endlessRequest();
        request.maxTokens = 50;
        session.stop(session.submit(request));
        const RequestId number = session.submit(request);
        QVERIFY(number > elsewhere);
        QTRY_COMPARE(heard.ends[number], 1);
        QTRY_VERIFY(!session.clock()->running()); // the last report has come, too
        QCOMPARE(dropped, 0u);
        int generated = 0;
        int events = 0;
        uint64_t last = 0;
        for (const StepReport& report : reports) {
            QVERIFY(report.number > last);
            last = report.number;
            generated += report.generated_tokens;
            for (const ReportRow& row : report.rows)
                QCOMPARE(row.request, number);
            for (const BlockEvent& event : report.block_events) {
                QCOMPARE(event.request, number);
                ++events;
            }
        }
        QVERIFY(generated >= 50);
        QVERIFY(events > 0);
    }

    /// 'Type while the model loads.'
    void asksWhileLoading() {
        ClockedSession session;
        Listener heard(session);
        session.loadModel(tinyPath());
        ChatRequest request = endlessRequest();
        request.maxTokens = 8;
        const RequestId first = session.submit(request);
        const RequestId second = session.submit(request);
        QTRY_COMPARE(heard.ends[first], 1);
        QTRY_COMPARE(heard.ends[second], 1);
        QCOMPARE(heard.last[first].finish, FinishReason::length);
        QCOMPARE(heard.last[second].finish, FinishReason::length);
    }

    void aWaitingRequestCanBeStoppedAndRetuned() {
        ClockedSession session;
        Listener heard(session);
        session.loadModel(tinyPath());
        const RequestId stopped = session.submit(endlessRequest());
        ChatRequest request = endlessRequest();
        request.maxTokens = 10;
        const RequestId tuned = session.submit(request);
        session.stop(stopped);
        SamplingParams only = request.sampling;
        only.logit_bias.push_back({tokenOf('q'), 1e6f});
        session.retune(tuned, only);
        QTRY_COMPARE(heard.ends[stopped], 1);
        QCOMPARE(heard.last[stopped].finish, FinishReason::cancelled);
        QTRY_COMPARE(heard.ends[tuned], 1);
        QCOMPARE(heard.text[tuned], std::string(10, 'q'));
    }

    void asksWithoutAModel() {
        ClockedSession session;
        Listener heard(session);
        const RequestId number = session.submit(endlessRequest());
        QCOMPARE(heard.ends[number], 0); // not before the caller knows the number
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(heard.last[number].finish, FinishReason::rejected);
        QCOMPARE(heard.last[number].failure.code, AnswerFailure::Code::NoModel);
    }

    void stopKeepsWhatWasWritten() {
        ClockedSession session;
        load(session);
        Listener heard(session);
        const RequestId number = session.submit(endlessRequest());
        QTRY_VERIFY(heard.tokens[number] >= 20);
        session.stop(number);
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(heard.last[number].finish, FinishReason::cancelled);
        QCOMPARE(heard.last[number].usage.completion_tokens, heard.tokens[number]);
        session.stop(number); // too late: nothing happens
        QTest::qWait(50);
        QCOMPARE(heard.ends[number], 1);
    }

    /// A knob that is turned in mid-answer is in force from the next token.
    void retunesARunningAnswer() {
        ClockedSession session;
        load(session);
        Listener heard(session);
        ChatRequest request = endlessRequest();
        const RequestId number = session.submit(request);
        QTRY_VERIFY(heard.tokens[number] >= 20);
        SamplingParams only = request.sampling;
        only.logit_bias.push_back({tokenOf('z'), 1e6f});
        session.retune(number, only);
        QTRY_VERIFY(QByteArray::fromStdString(heard.text[number]).endsWith(QByteArray(50, 'z')));
        session.stop(number);
        QTRY_COMPARE(heard.ends[number], 1);
    }

    void cancelsALoad() {
        ClockedSession session;
        QSignalSpy loaded(&session, &EngineSession::modelLoaded);
        QSignalSpy cancelled(&session, &EngineSession::loadCancelled);
        QSignalSpy failed(&session, &EngineSession::loadFailed);
        session.loadModel(tinyPath());
        session.cancelLoad();
        QCOMPARE(cancelled.count(), 1); // the window need not wait for the loader
        QCOMPARE(cancelled.first().at(0).toString(), tinyPath());
        QCOMPARE(session.state(), State::Empty);
        QTest::qWait(300);
        QCOMPARE(loaded.count(), 0);
        QCOMPARE(failed.count(), 0);
        // And another load works after it.
        load(session);
        QCOMPARE(session.state(), State::Ready);
    }

    void aLoadReplacesTheOneBefore() {
        ClockedSession session;
        QSignalSpy loaded(&session, &EngineSession::modelLoaded);
        Listener heard(session);
        session.loadModel(tinyPath(1));
        ChatRequest request = endlessRequest();
        request.maxTokens = 5;
        const RequestId number = session.submit(request);
        session.loadModel(tinyPath(2));
        QTRY_COMPARE(heard.ends[number], 1); // it waited for the second
        QCOMPARE(heard.last[number].finish, FinishReason::length);
        QCOMPARE(loaded.count(), 1);
        QCOMPARE(session.model().path, tinyPath(2));
    }

    void brokenFilesLeaveTheModelInPlace_data() {
        QTest::addColumn<QString>("path");
        folder_ = std::make_unique<test::TemporaryFolder>();
        const auto write = [&](const char* name, const std::string& bytes) {
            const std::filesystem::path path = folder_->path() / name;
            std::ofstream(path, std::ios::binary) << bytes;
            QTest::newRow(name) << QString::fromStdString(path.string());
        };
        const std::string whole = test::read_file(test::tiny_model({.seed = 1, .context_length = 8192}));
        write("cut in the weights.gguf", whole.substr(0, whole.size() / 2));
        write("cut in the header.gguf", whole.substr(0, 100));
        write("empty.gguf", "");
        write("no model.gguf", "this is a text and no model at all, however long it may be");
        std::string garbled = whole;
        for (size_t i = 24; i < 2000 && i < garbled.size(); i += 3)
            garbled[i] = char(garbled[i] ^ 0x5a);
        write("garbled.gguf", garbled);
        QTest::newRow("missing") << QString::fromStdString((folder_->path() / "not there.gguf").string());
    }
    void brokenFilesLeaveTheModelInPlace() {
        QFETCH(QString, path);
        ClockedSession session;
        load(session);
        Listener heard(session);
        QSignalSpy failed(&session, &EngineSession::loadFailed);
        session.loadModel(path);
        QVERIFY(failed.wait(20'000));
        const auto failure = failed.first().at(0).value<LoadFailure>();
        QCOMPARE(failure.code,
                 QFileInfo::exists(path) ? LoadFailure::Code::NotUsable : LoadFailure::Code::Missing);
        QCOMPARE(failure.path, path);
        QVERIFY2(sentence(failure).size() > 20, qPrintable(sentence(failure)));
        QVERIFY2(sentence(failure).contains(QFileInfo(path).fileName()), qPrintable(sentence(failure)));
        QCOMPARE(session.state(), State::Ready);
        QCOMPARE(session.model().path, tinyPath());

        ChatRequest request = endlessRequest();
        request.maxTokens = 5;
        const RequestId number = session.submit(request);
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(heard.last[number].finish, FinishReason::length);
    }

    void aFailedFirstLoadEndsWhatWaited() {
        ClockedSession session;
        Listener heard(session);
        QSignalSpy failed(&session, &EngineSession::loadFailed);
        session.loadModel(QStringLiteral("/nowhere/no.gguf"));
        const RequestId number = session.submit(endlessRequest());
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(failed.count(), 1);
        QCOMPARE(heard.last[number].finish, FinishReason::rejected);
        QCOMPARE(session.state(), State::Empty);
    }

    /// Another model, or none: what runs ends as cancelled, once, with all of its text.
    void unloadAndReplaceEndWhatRuns_data() {
        QTest::addColumn<bool>("replace");
        QTest::newRow("unload") << false;
        QTest::newRow("replace") << true;
    }
    void unloadAndReplaceEndWhatRuns() {
        QFETCH(bool, replace);
        ClockedSession session;
        load(session);
        Listener heard(session);
        const RequestId number = session.submit(endlessRequest());
        QTRY_VERIFY(heard.tokens[number] >= 10);
        if (replace) {
            QSignalSpy loaded(&session, &EngineSession::modelLoaded);
            session.loadModel(tinyPath(2));
            QVERIFY(loaded.wait(20'000));
        } else {
            session.unload();
        }
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(heard.last[number].finish, FinishReason::cancelled);
        QCOMPARE(session.activeRequests(), 0);
        QTest::qWait(50);
        QCOMPARE(heard.ends[number], 1);
    }

    void whatIsTooLongIsRefusedWithNumbers() {
        ClockedSession session;
        load(session);
        Listener heard(session);
        ChatRequest request = endlessRequest();
        request.messages = {{"user", std::string(20'000, 'x')}};
        const RequestId number = session.submit(request);
        QTRY_COMPARE(heard.ends[number], 1);
        QCOMPARE(heard.last[number].finish, FinishReason::rejected);
        const AnswerFailure failure = heard.last[number].failure;
        QCOMPARE(failure.code, AnswerFailure::Code::PromptTooLong);
        QCOMPARE(failure.contextTokens, 8192);
        QVERIFY(failure.promptTokens > 20'000);
        QVERIFY(failure.detail.contains(QString::number(failure.promptTokens))); // the engine counts the same
        QVERIFY2(sentence(failure).contains(QLocale().toString(8192)), qPrintable(sentence(failure)));
    }

    /// The GUI thread is never held up: while an answer runs and a long prompt is prepared, its event loop
    /// turns.
    void theEventLoopKeepsTurning() {
        ClockedSession session;
        load(session);
        Listener heard(session);
        const RequestId running = session.submit(endlessRequest());
        QTRY_VERIFY(heard.tokens[running] >= 5);
        ChatRequest longRequest = endlessRequest();
        for (int i = 0; i < 200; ++i)
            longRequest.messages.push_back(
                {i % 2 ? "user" : "assistant", std::string(5'000, char('a' + i % 26))});
        int turns = 0;
        QTimer turning;
        connect(&turning, &QTimer::timeout, &turning, [&] { ++turns; });
        turning.start(0);
        const RequestId number = session.submit(longRequest);
        QCOMPARE(turns, 0);
        QTRY_COMPARE(heard.ends[number], 1); // refused: it is far too long; but the other goes on
        QCOMPARE(heard.ends[running], 0);
        // A megabyte was rendered and tokenized meanwhile, and not between two turns of this loop.
        QVERIFY2(turns > 20, qPrintable(QString::number(turns)));
        session.stop(running);
        QTRY_COMPARE(heard.ends[running], 1);
    }

    void destructionInMidAnswer() {
        for (int i = 0; i < 5; ++i) {
            auto session = std::make_unique<ClockedSession>();
            load(*session);
            Listener heard(*session);
            const RequestId number = session->submit(endlessRequest());
            QTRY_VERIFY(heard.tokens[number] >= 1 + i);
            session->submit(endlessRequest()); // this one may still be prepared
            session.reset();
        }
        for (int i = 0; i < 5; ++i) {
            ClockedSession session;
            session.loadModel(tinyPath());
            QTest::qWait(i);
        }
    }

    /// What cannot be interrupted goes on without the session.
    void theSessionsEndWaitsForNothing() {
        auto session = std::make_unique<ClockedSession>();
        load(*session);
        ChatRequest request = endlessRequest();
        request.messages = {{"user", std::string(50'000'000, 'x')}};
        session->submit(request);
        QTest::qWait(50);
        QCOMPARE(session->activeRequests(), 1);
        session.reset();
        QVERIFY(!Worker::waitForEnded(std::chrono::milliseconds(0)));
        QVERIFY(Worker::waitForEnded(std::chrono::minutes(2)));
    }

    void cleanupTestCase() { QVERIFY(Worker::waitForEnded(std::chrono::seconds(20))); }

private:
    std::unique_ptr<test::TemporaryFolder> folder_;

    static void load(EngineSession& session) {
        QSignalSpy loaded(&session, &EngineSession::modelLoaded);
        session.loadModel(tinyPath());
        QVERIFY(loaded.count() || loaded.wait(20'000));
    }
};

QTEST_GUILESS_MAIN(TestEngineSession)
#include "tst_engine_session.moc"
