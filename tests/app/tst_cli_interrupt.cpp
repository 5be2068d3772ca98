// Ctrl-C: status 130 wherever it comes, and what has been answered by then is printed.
#include "tests/app/cli_run.h"
#include "tests/support/tiny_model.h"

#include <QElapsedTimer>
#include <QtTest>

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#endif

using namespace orrery::test;
using Json = nlohmann::json;

class TestCliInterrupt : public QObject {
    Q_OBJECT

#ifndef _WIN32
    QStringList model_;

    static void interrupt(QProcess& process) {
        ::kill(pid_t(process.processId()), SIGINT);
    }

    /// Waits until the process has written `wanted` to one of its streams; what it has written until then.
    static std::string wait_for(QProcess& process, QProcess::ProcessChannel channel, const char* wanted) {
        QByteArray seen;
        process.setReadChannel(channel);
        QElapsedTimer timer;
        timer.start();
        while (!seen.contains(wanted) && timer.elapsed() < 120'000 &&
               process.state() != QProcess::NotRunning) {
            process.waitForReadyRead(1000);
            seen += process.readAll();
        }
        return seen.toStdString();
    }

private slots:
    void initTestCase() {
        model_ = words("--model") + QStringList{text(tiny_model({.context_length = 1 << 18}))} +
                 words("--context 200000 --kv-type int4 --threads 1");
    }

    /// The text so far is printed; the rest is not written.
    void duringAnAnswer() {
        QProcess process;
        process.start(QStringLiteral(ORRERY_CLI),
                      words("ask Hello --ignore-eos --max-tokens 190000") + model_);
        process.closeWriteChannel();
        QVERIFY(process.waitForReadyRead(120'000));
        interrupt(process);
        const CliResult result = finish(process);
        QCOMPARE(result.status, 130);
        QVERIFY(result.out.ends_with('\n'));
        QCOMPARE(result.err, std::string());
    }

    void duringAnAnswerInJson() {
        QProcess process;
        process.start(QStringLiteral(ORRERY_CLI),
                      words("ask Hello --json --verbose --ignore-eos --max-tokens 190000") + model_);
        process.closeWriteChannel();
        QTest::qWait(1500);
        interrupt(process);
        const CliResult result = finish(process);
        QCOMPARE(result.status, 130);
        if (!result.out.empty()) // else it was still loading
            QCOMPARE(result.lines().at(0)["finish_reason"], "cancelled");
    }

    /// Every line has its answer: those that had ended as they are, the others as far as they came.
    void duringGenerate() {
        QProcess process;
        process.start(QStringLiteral(ORRERY_CLI), words("generate") + model_);
        process.write("{\"prompt\": \"Hi\", \"max_tokens\": 2, \"ignore_eos\": true}\n"
                      "{\"prompt\": \"Hello\", \"max_tokens\": 190000, \"ignore_eos\": true}\n"
                      "{\"prompt\": \"Hi\", \"max_tokens\": 2, \"ignore_eos\": true}\n");
        process.closeWriteChannel();
        const std::string first = wait_for(process, QProcess::StandardOutput, "\n");
        QTest::qWait(300);
        interrupt(process);
        CliResult result = finish(process);
        QCOMPARE(result.status, 130);
        result.out = first + result.out;
        const std::vector<Json> lines = result.lines();
        QCOMPARE(lines.size(), size_t(3));
        QCOMPARE(lines[0]["finish_reason"], "length");
        QCOMPARE(lines[1]["finish_reason"], "cancelled");
        QCOMPARE(lines[2]["finish_reason"], "length");
    }

    /// Verbs that have nothing to print yet end at once: while they wait for input, or for the model.
    void whileWaitingForInput() {
        for (const char* verb : {"generate", "score", "tokenize", "ask", "render"}) {
            QProcess process;
            QStringList arguments = words(verb) + model_;
            if (QLatin1String(verb) == QLatin1String("tokenize") ||
                QLatin1String(verb) == QLatin1String("render"))
                arguments = words(verb) + model_.first(2);
            process.start(QStringLiteral(ORRERY_CLI), arguments);
            QVERIFY(process.waitForStarted());
            QTest::qWait(700); // it has its handler by then
            interrupt(process);
            QCOMPARE(finish(process).status, 130);
        }
    }

    /// On a terminal: at the chat's prompt it ends the program, during an answer only the answer.
    void atTheChatPrompt() {
        const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
        if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
            QSKIP("no pseudo-terminal");
        const auto close = qScopeGuard([&] { ::close(terminal); });
        QProcess process;
        process.setStandardInputFile(QString::fromLatin1(::ptsname(terminal)));
        process.start(QStringLiteral(ORRERY_CLI), words("ask --ignore-eos --max-tokens 150000") + model_);
        QVERIFY(wait_for(process, QProcess::StandardError, "\n> ").find("\n> ") != std::string::npos);
        QCOMPARE(::write(terminal, "Hello\n", 6), ssize_t(6));
        process.setReadChannel(QProcess::StandardOutput);
        QVERIFY(process.waitForReadyRead(120'000)); // the answer begins
        interrupt(process);
        const std::string after = wait_for(process, QProcess::StandardError, "\n> ");
        QVERIFY2(after.find("\n> ") != std::string::npos, after.c_str());
        QVERIFY(process.state() == QProcess::Running);
        interrupt(process);
        QCOMPARE(finish(process).status, 130);
    }

    /// A chat has no JSON.
    void aChatAsJsonIsRefused() {
        const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
        if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
            QSKIP("no pseudo-terminal");
        const auto close = qScopeGuard([&] { ::close(terminal); });
        const CliResult result = run_cli(words("ask --json"), {}, [&](QProcess& process) {
            process.setStandardInputFile(QString::fromLatin1(::ptsname(terminal)));
        });
        QCOMPARE(result.status, 2);
        QVERIFY2(is_one_sentence(result.err), result.err.c_str());
    }
#endif
};

QTEST_GUILESS_MAIN(TestCliInterrupt)
#include "tst_cli_interrupt.moc"
