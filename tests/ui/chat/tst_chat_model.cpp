// One conversation, with a real engine on a tiny model: what it sends, what it keeps, and what it says about
// its changes.
#include "engine/model/model.h"
#include "tests/support/tiny_model.h"
#include "tests/ui/clocked_session.h"
#include "ui/chat/chat_model.h"

#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QtTest>

using namespace orrery;
using namespace orrery::ui;
using namespace std::chrono_literals;
using test::ClockedSession;
using State = ChatMessageEntry::State;

namespace {

constexpr TokenId end_of_turn = 2; // of the tiny model

QString tinyPath() {
    return QString::fromStdString(test::tiny_model({.context_length = 16384}).string());
}

/// Answers that go on until they are stopped or `maxTokens` are written.
ChatSettings endless(int maxTokens = -1) {
    ChatSettings settings;
    settings.sampling.logit_bias = {{end_of_turn, -1e9f}, {0, -1e9f}};
    settings.sampling.seed = 5;
    settings.maxTokens = maxTokens;
    return settings;
}

TokenId tokenOf(char c) {
    return test::tiny_first_byte + static_cast<unsigned char>(c);
}

/// A chat and all that it says.
struct Chat {
    ChatModel model;
    QAbstractItemModelTester tester{&model, QAbstractItemModelTester::FailureReportingMode::QtTest};
    QSignalSpy titles{&model, &ChatModel::titleChanged};
    QSignalSpy busy{&model, &ChatModel::busyChanged};
    QSignalSpy finished{&model, &ChatModel::answerFinished};
    QSignalSpy inserted{&model, &ChatModel::rowsInserted};
    QSignalSpy removed{&model, &ChatModel::rowsRemoved};
    QSignalSpy changed{&model, &ChatModel::dataChanged};
    std::map<int, QString> appended; ///< all pieces of each row's text

    explicit Chat(EngineSession* session) : model(session) {
        QObject::connect(&model, &ChatModel::textAppended, &model,
                         [this](int row, const QString& piece) { appended[row] += piece; });
    }

    const ChatMessageEntry& last() const { return model.messages().back(); }
};

} // namespace

class TestChatModel : public QObject {
    Q_OBJECT

    std::unique_ptr<ClockedSession> session_;

    void load() {
        session_->loadModel(tinyPath());
        QTRY_VERIFY_WITH_TIMEOUT(session_->hasModel(), 20'000);
    }

    /// Prompt tokens of a conversation, counted without a session.
    static int promptTokens(const std::vector<orrery::ChatMessage>& messages) {
        static const std::shared_ptr<Model> model = load_model(tinyPath().toStdString());
        return int(model->encode_chat(messages).size());
    }

private slots:
    void init() { session_ = std::make_unique<ClockedSession>(); }
    void cleanup() { session_.reset(); }
    void cleanupTestCase() { QVERIFY(Worker::waitForEnded(20s)); }

    void beginsEmpty() {
        const QDateTime before = QDateTime::currentDateTime();
        Chat chat(session_.get());
        QVERIFY(chat.model.title().isEmpty());
        QVERIFY(chat.model.draft().isEmpty());
        QVERIFY(chat.model.created() >= before && chat.model.created() <= QDateTime::currentDateTime());
        QVERIFY(chat.model.messages().empty());
        QCOMPARE(chat.model.rowCount(), 0);
        QVERIFY(!chat.model.busy());
        QCOMPARE(chat.model.request(), RequestId(0));
        QVERIFY(!chat.model.canRegenerate());
        chat.model.stop();
        chat.model.regenerate();
        QVERIFY(chat.model.messages().empty());
        QCOMPARE(session_->activeRequests(), 0);
    }

    void titlesAndDrafts() {
        Chat chat(session_.get());
        chat.model.setTitle(QStringLiteral("One"));
        chat.model.setTitle(QStringLiteral("One"));
        QCOMPARE(chat.titles.count(), 1);
        QCOMPARE(chat.titles.last().at(0).toString(), QStringLiteral("One"));
        chat.model.setDraft(QStringLiteral("half"));
        QCOMPARE(chat.model.draft(), QStringLiteral("half"));
        // A title that was given stays.
        chat.model.send(QStringLiteral("hello"));
        QCOMPARE(chat.model.title(), QStringLiteral("One"));
    }

    void theFirstMessageGivesTheTitle_data() {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("title");
        const auto row = [](const char* name, const QString& text, const QString& title) {
            QTest::newRow(name) << text << title;
        };
        const QString family = QString::fromUtf8("👨‍👩‍👧‍👦"); // 11 code units
        row("short", QStringLiteral("hello"), QStringLiteral("hello"));
        row("lines and spaces", QStringLiteral("  a \n\n b\tc "), QStringLiteral("a b c"));
        row("48 letters stay", QString(48, QLatin1Char('x')), QString(48, QLatin1Char('x')));
        row("49 letters", QString(49, QLatin1Char('x')), QString(48, QLatin1Char('x')));
        row("surrogate pair", QString(47, QLatin1Char('x')) + QString::fromUtf8("😀!"),
            QString(47, QLatin1Char('x')));
        row("families", family.repeated(6), family.repeated(4));
        row("combining mark", QString(47, QLatin1Char('x')) + QString::fromUtf8("e\u0301!"),
            QString(47, QLatin1Char('x')));
    }
    void theFirstMessageGivesTheTitle() {
        QFETCH(QString, text);
        QFETCH(QString, title);
        Chat chat(session_.get());
        chat.model.send(text);
        QCOMPARE(chat.model.title(), title);
        QCOMPARE(chat.titles.count(), 1);
        QCOMPARE(chat.model.messages()[0].text, text); // the message itself stays whole
    }

    void blankTextIsNotSent() {
        Chat chat(session_.get());
        for (const char* text : {"", " ", "\n\t \n"})
            chat.model.send(QString::fromLatin1(text));
        QVERIFY(chat.model.messages().empty());
        QVERIFY(chat.model.title().isEmpty());
        QCOMPARE(session_->activeRequests(), 0);
    }

    void sendsStreamsAndEnds() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless(40));
        const QDateTime before = QDateTime::currentDateTime();
        chat.model.send(QStringLiteral("hello"));

        QCOMPARE(chat.inserted.count(), 2);
        QCOMPARE(chat.inserted[0].at(1).toInt(), 0);
        QCOMPARE(chat.inserted[1].at(1).toInt(), 1);
        QCOMPARE(chat.model.rowCount(), 2);
        const ChatMessageEntry question = chat.model.messages()[0];
        QCOMPARE(question.role, ChatMessageEntry::Role::User);
        QVERIFY(!question.isAnswer());
        QCOMPARE(question.text, QStringLiteral("hello"));
        QCOMPARE(question.state, State::Done);
        QVERIFY(question.time >= before);
        QVERIFY(chat.last().isAnswer());
        QCOMPARE(chat.last().state, State::Waiting);
        QCOMPARE(chat.last().request, chat.model.request());
        QVERIFY(chat.model.busy() && chat.model.request() != 0);
        QVERIFY(!chat.model.canRegenerate());
        QCOMPARE(chat.busy.count(), 1);
        QCOMPARE(chat.busy[0].at(0).toBool(), true);

        const RequestId request = chat.model.request();
        chat.model.send(QStringLiteral("not while it writes"));
        chat.model.regenerate();
        QCOMPARE(chat.model.rowCount(), 2);
        QCOMPARE(chat.model.request(), request);

        QTRY_COMPARE(chat.finished.count(), 1);
        QCOMPARE(chat.finished[0].at(0).toInt(), 1);
        QCOMPARE(chat.busy.count(), 2);
        QCOMPARE(chat.busy[1].at(0).toBool(), false);
        QVERIFY(!chat.model.busy());
        QCOMPARE(chat.model.request(), RequestId(0));
        QVERIFY(chat.model.canRegenerate());
        const ChatMessageEntry& answer = chat.last();
        QCOMPARE(answer.state, State::Done);
        QCOMPARE(answer.request, request);
        QCOMPARE(answer.finish, FinishReason::length);
        QVERIFY(!answer.failure);
        QCOMPARE(answer.tokens, 40);
        QCOMPARE(answer.usage.completion_tokens, 40);
        QCOMPARE(answer.promptTokens, promptTokens({{"user", "hello"}}));
        QCOMPARE(answer.usage.prompt_tokens, answer.promptTokens);
        QCOMPARE(answer.seed, quint64(5));
        QVERIFY(answer.timings.finished_ns >= answer.timings.first_token_ns);
        QVERIFY(answer.timings.first_token_ns > 0);
        // What was streamed is the text, and each change was told.
        QVERIFY(!answer.text.isEmpty());
        QCOMPARE(chat.appended[1], answer.text);
        QCOMPARE(chat.appended.count(0), size_t(0));
        QVERIFY(chat.changed.count() >= 2);
        for (const QList<QVariant>& change : std::as_const(chat.changed))
            QCOMPARE(change.at(0).toModelIndex().row(), 1);
    }

    void stopKeepsWhatWasWritten() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless());
        chat.model.send(QStringLiteral("hello"));
        QTRY_VERIFY(chat.last().tokens > 10);
        QCOMPARE(chat.last().state, State::Streaming);
        chat.model.stop();
        QTRY_VERIFY(!chat.model.busy());
        QCOMPARE(chat.last().finish, FinishReason::cancelled);
        QVERIFY(!chat.last().failure);
        QCOMPARE(chat.last().usage.completion_tokens, chat.last().tokens);
        QCOMPARE(chat.appended[1], chat.last().text);
        chat.model.stop(); // too late: nothing happens
        QTest::qWait(30);
        QCOMPARE(chat.finished.count(), 1);
    }

    void stopsWhatStillWaits() {
        Chat chat(session_.get());
        session_->loadModel(tinyPath());
        chat.model.send(QStringLiteral("too early"));
        chat.model.stop();
        QTRY_VERIFY(!chat.model.busy());
        QCOMPARE(chat.last().finish, FinishReason::cancelled);
        QVERIFY(chat.last().text.isEmpty());
        QVERIFY(chat.appended.empty());
    }

    void regenerateTakesTheLastAnswerAway() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless(10));
        chat.model.send(QStringLiteral("hello"));
        QTRY_COMPARE(chat.finished.count(), 1);
        const RequestId first = chat.last().request;
        const QString text = chat.last().text;
        const int prompt = chat.last().promptTokens;
        chat.model.regenerate();
        QCOMPARE(chat.removed.count(), 1);
        QCOMPARE(chat.removed[0].at(1).toInt(), 1);
        QCOMPARE(chat.model.rowCount(), 2);
        QVERIFY(chat.model.busy());
        QVERIFY(chat.model.request() != first);
        QTRY_COMPARE(chat.finished.count(), 2);
        QCOMPARE(chat.last().text, text); // the same seed, the same question
        QCOMPARE(chat.last().promptTokens, prompt);

        ChatSettings fresh = endless(10);
        fresh.sampling.seed.reset();
        chat.model.setSettings(fresh);
        chat.model.regenerate();
        QTRY_COMPARE(chat.finished.count(), 3);
        QVERIFY(chat.last().seed != 5); // it is told, so that the answer can be had again
    }

    /// The settings that are set while an answer is written are in force from its next token; those that it
    /// began with gave the first.
    void settingsReachARunningAnswer() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless());
        chat.model.send(QStringLiteral("hello"));
        QTRY_VERIFY(chat.last().tokens > 10);
        ChatSettings only = endless();
        only.sampling.logit_bias.push_back({tokenOf('z'), 1e6f});
        chat.model.setSettings(only);
        QCOMPARE(chat.model.settings().sampling.logit_bias.size(), only.sampling.logit_bias.size());
        QTRY_VERIFY(chat.last().text.endsWith(QString(20, QLatin1Char('z'))));
        QVERIFY(!chat.last().text.startsWith(QString(10, QLatin1Char('z'))));
        chat.model.stop();
        QTRY_VERIFY(!chat.model.busy());
    }

    /// What goes to the engine is the system prompt and every turn; its length is counted by the model's own
    /// template and tokenizer.
    void theWholeConversationIsSent() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless(5));
        chat.model.send(QStringLiteral("one"));
        QTRY_COMPARE(chat.finished.count(), 1);
        const std::string answer = chat.last().text.toStdString();
        QVERIFY(!answer.empty());
        chat.model.send(QStringLiteral("two"));
        QTRY_COMPARE(chat.finished.count(), 2);
        QCOMPARE(chat.last().promptTokens,
                 promptTokens({{"user", "one"}, {"assistant", answer}, {"user", "two"}}));

        ChatSettings brief = endless(5);
        brief.systemPrompt = QStringLiteral("Be brief.");
        chat.model.setSettings(brief);
        chat.model.regenerate();
        QTRY_COMPARE(chat.finished.count(), 3);
        QCOMPARE(
            chat.last().promptTokens,
            promptTokens({{"system", "Be brief."}, {"user", "one"}, {"assistant", answer}, {"user", "two"}}));
        brief.systemPrompt = QStringLiteral(" \n "); // blank: none
        chat.model.setSettings(brief);
        chat.model.regenerate();
        QTRY_COMPARE(chat.finished.count(), 4);
        QCOMPARE(chat.last().promptTokens,
                 promptTokens({{"user", "one"}, {"assistant", answer}, {"user", "two"}}));
    }

    /// An answer without a word is no turn, and a question that was refused would be refused again.
    void whatCameToNothingIsNotSentAgain() {
        load();
        Chat chat(session_.get());
        ChatSettings silent = endless(0);
        chat.model.setSettings(silent);
        chat.model.send(QStringLiteral("one"));
        QTRY_COMPARE(chat.finished.count(), 1);
        QVERIFY(chat.last().text.isEmpty());
        chat.model.setSettings(endless(5));
        chat.model.send(QString(20'000, QLatin1Char('x')));
        QTRY_COMPARE(chat.finished.count(), 2);
        QCOMPARE(chat.last().finish, FinishReason::rejected);
        QCOMPARE(chat.last().failure.code, AnswerFailure::Code::PromptTooLong);
        QCOMPARE(chat.last().failure.contextTokens, 16384);
        QCOMPARE(chat.last().failure.promptTokens, chat.last().promptTokens);
        chat.model.send(QStringLiteral("two"));
        QTRY_COMPARE(chat.finished.count(), 3);
        QCOMPARE(chat.last().finish, FinishReason::length);
        QCOMPARE(chat.last().promptTokens, promptTokens({{"user", "one"}, {"user", "two"}}));
    }

    void rolesOfARow() {
        Chat chat(session_.get());
        chat.model.send(QStringLiteral("hello"));
        QTRY_COMPARE(chat.finished.count(), 1);
        QCOMPARE(chat.last().finish, FinishReason::rejected);
        QCOMPARE(chat.last().failure.code, AnswerFailure::Code::NoModel);
        const QModelIndex question = chat.model.index(0), answer = chat.model.index(1);
        QCOMPARE(question.data(ChatModel::TextRole).toString(), QStringLiteral("hello"));
        QCOMPARE(question.data(ChatModel::IsAnswerRole).toBool(), false);
        QCOMPARE(question.data(ChatModel::StateRole).toInt(), int(State::Done));
        QVERIFY(question.data(ChatModel::ErrorRole).toString().isEmpty());
        QVERIFY(question.data(Qt::AccessibleTextRole).toString().contains(QStringLiteral("hello")));
        QCOMPARE(answer.data(ChatModel::IsAnswerRole).toBool(), true);
        QCOMPARE(answer.data(ChatModel::StateRole).toInt(), int(State::Done));
        QCOMPARE(answer.data(ChatModel::ErrorRole).toString(), sentence(chat.last().failure));
        QVERIFY(!answer.data(Qt::AccessibleTextRole).toString().isEmpty());
        QVERIFY(!answer.data(Qt::DecorationRole).isValid());
        QCOMPARE(chat.model.rowCount(question), 0); // a list has no rows below a row
        QVERIFY(chat.model.canRegenerate());        // once a model is open
    }

    void chatsHearOnlyOfTheirOwnAnswers() {
        load();
        Chat one(session_.get()), two(session_.get()), idle(session_.get());
        one.model.setSettings(endless(30));
        ChatSettings other = endless(20);
        other.sampling.logit_bias.push_back({tokenOf('q'), 1e6f});
        two.model.setSettings(other);
        one.model.send(QStringLiteral("hello"));
        two.model.send(QStringLiteral("hello"));
        QVERIFY(one.model.request() != two.model.request());
        QTRY_COMPARE(one.finished.count(), 1);
        QTRY_COMPARE(two.finished.count(), 1);
        QCOMPARE(one.last().tokens, 30);
        QCOMPARE(two.last().tokens, 20);
        QCOMPARE(two.last().text, QString(20, QLatin1Char('q')));
        QVERIFY(!one.last().text.contains(QStringLiteral("qqqqqqqq")));
        QCOMPARE(idle.inserted.count() + idle.changed.count() + idle.busy.count(), 0);
    }

    void theModelsEndEndsTheAnswer() {
        load();
        Chat chat(session_.get());
        chat.model.setSettings(endless());
        chat.model.send(QStringLiteral("hello"));
        QTRY_VERIFY(chat.last().tokens > 5);
        session_->unload();
        QTRY_VERIFY(!chat.model.busy());
        QCOMPARE(chat.last().finish, FinishReason::cancelled);
        QCOMPARE(chat.appended[1], chat.last().text);
    }
};

QTEST_GUILESS_MAIN(TestChatModel)
#include "tst_chat_model.moc"
