// Files that are not there, may not be read or written, or are no models: one sentence with the path and the
// system's reason, status 1, nothing on standard output.
#include "tests/app/cli_run.h"
#include "tests/support/tiny_model.h"

#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#ifndef _WIN32
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace orrery::test;

namespace {

void write(const QString& path, const QByteArray& bytes) {
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(bytes);
}

} // namespace

class TestCliFiles : public QObject {
    Q_OBJECT

    QString tiny_;

private slots:
    void initTestCase() { tiny_ = text(tiny_model()); }

    void modelsThatCannotBeOpened() {
        QTemporaryDir folder;
        const QString broken = folder.filePath(QStringLiteral("broken.gguf"));
        write(broken, QByteArray("GGUF\3\0\0\0", 8));
        for (const QString& model : {QStringLiteral("/nowhere/model.gguf"), broken, folder.path(),
                                     QStringLiteral("/dev/null"), QString(5000, QLatin1Char('x'))}) {
            for (const char* verb :
                 {"ask hi", "generate", "score", "inspect", "tokenize", "detokenize", "bench"}) {
                const CliResult result =
                    run_cli(words(verb) + QStringList{QStringLiteral("--model"), model}, "{\"ids\": [1]}\n");
                QCOMPARE(result.status, 1);
                QVERIFY2(is_one_sentence(result.err), result.err.c_str());
                QCOMPARE(result.out, std::string());
            }
        }
    }

    /// What the system says, whatever the verb: not a library's words.
    void reasonsAreTheSystems() {
        QTemporaryDir folder;
        const QString nothing = folder.filePath(QStringLiteral("nothing"));
        const QStringList lines[] = {
            words("score --model") + QStringList{tiny_, QStringLiteral("--text")},
            words("render --template"),
            words("inspect --dequantize Q4_0"),
            words("inspect --model"),
        };
        for (const QStringList& line : lines) {
            const bool decodes = line.contains(QStringLiteral("Q4_0"));
            const QStringList rest =
                decodes ? QStringList{folder.filePath(QStringLiteral("out"))} : QStringList();
            const CliResult absent = run_cli(line + QStringList{nothing} + rest);
            QCOMPARE(absent.status, 1);
            QCOMPARE(absent.err, "orrery-cli: " + nothing.toStdString() +
                                     " cannot be opened: No such file or directory.\n");
            if (line.contains(QStringLiteral("inspect")) && !decodes)
                continue; // a folder may hold a model
            const CliResult is_folder = run_cli(line + QStringList{folder.path()} + rest);
            QCOMPARE(is_folder.status, 1);
            QCOMPARE(is_folder.err,
                     "orrery-cli: " + folder.path().toStdString() + " is a folder, not a file.\n");
        }
    }

#ifndef _WIN32
    /// As a user without rights on the folder.
    void lockedFolders() {
        QTemporaryDir folder;
        const QString locked = folder.filePath(QStringLiteral("locked"));
        QVERIFY(QDir().mkdir(locked));
        QVERIFY(::chmod(qPrintable(folder.path()), 0755) == 0);
        QVERIFY(::chmod(qPrintable(locked), 0) == 0);
        const auto unlock = qScopeGuard([&] { ::chmod(qPrintable(locked), 0700); });
        const QString model = folder.filePath(QStringLiteral("tiny.gguf"));
        QVERIFY(QFile::copy(tiny_, model));
        QVERIFY(::chmod(qPrintable(model), 0644) == 0);
        const auto without_rights = [&](QProcess& process) {
            QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
            environment.remove(QStringLiteral("XDG_DATA_HOME"));
            environment.insert(QStringLiteral("HOME"), locked);
            process.setProcessEnvironment(environment);
            if (::geteuid() == 0)
                process.setChildProcessModifier([] {
                    if (::setgid(65534) != 0 || ::setuid(65534) != 0)
                        ::_exit(99);
                });
        };
        if (run_cli(words("--version"), {}, without_rights).status != 0)
            QSKIP("another user may not run the program");
        const QString file = locked + QStringLiteral("/x");
        const std::string denied =
            "orrery-cli: " + file.toStdString() + " cannot be opened: Permission denied.\n";
        for (const QStringList& line :
             {words("score -m") + QStringList{model, QStringLiteral("--text"), file},
              words("render --template") + QStringList{file},
              words("inspect --dequantize Q4_0") + QStringList{file, QStringLiteral("out")},
              words("inspect --model") + QStringList{file}, words("ask hi --model") + QStringList{file}}) {
            const CliResult result = run_cli(line, {}, without_rights);
            QCOMPARE(result.status, 1);
            QCOMPARE(result.err, denied);
        }
        // The folder itself as a model, and as the home folder, where the default model is.
        const CliResult as_model =
            run_cli(words("inspect --model") + QStringList{locked}, {}, without_rights);
        QCOMPARE(as_model.status, 1);
        QVERIFY2(as_model.err.find("Permission denied") != std::string::npos, as_model.err.c_str());
        const CliResult home = run_cli(words("ask hi"), {}, without_rights);
        QCOMPARE(home.status, 1);
        QVERIFY2(home.err.find("the default model is not at '" + locked.toStdString()) != std::string::npos,
                 home.err.c_str());
        // A file that may not be written.
        write(folder.filePath(QStringLiteral("blocks")), QByteArray(34, '\1'));
        const CliResult out = run_cli(words("inspect --dequantize Q8_0") +
                                          QStringList{folder.filePath(QStringLiteral("blocks")), file},
                                      {}, without_rights);
        QCOMPARE(out.status, 1);
        QCOMPARE(out.err, "orrery-cli: " + file.toStdString() + " cannot be written: Permission denied.\n");
    }

    /// A full disk, and a reader that has gone: one sentence, status 1, and the work stops there.
    void outputThatCannotBeWritten() {
        if (!QFile::exists(QStringLiteral("/dev/full")))
            QSKIP("no /dev/full");
        const std::string request = R"({"prompt": "Hello", "max_tokens": 3, "ignore_eos": true})"
                                    "\n";
        const std::pair<const char*, std::string> verbs[] = {
            {"ask Hello --max-tokens 3", ""},
            {"ask Hello --max-tokens 3 --json", ""},
            {"generate", request},
            {"score", "{\"ids\": [1, 2]}\n"},
            {"tokenize", "{\"text\": \"a\"}\n"},
            {"detokenize", "{\"ids\": [3]}\n"},
            {"inspect", ""},
            {"render", R"({"messages": [{"role": "user", "content": "a"}]})"}};
        for (const auto& [verb, input] : verbs) {
            const CliResult result = run_cli(
                words(verb) + QStringList{QStringLiteral("--model"), tiny_}, input,
                [](QProcess& process) { process.setStandardOutputFile(QStringLiteral("/dev/full")); });
            QVERIFY2(result.status == 1, verb);
            QVERIFY2(result.err.find("The output cannot be written: No space left on device.") !=
                         std::string::npos,
                     result.err.c_str());
        }
    }

    void readersThatHaveGone() {
        for (const char* verb : {"generate", "inspect"}) {
            QProcess process;
            process.setChildProcessModifier([] {
                int ends[2];
                if (::pipe(ends) != 0)
                    ::_exit(99);
                ::close(ends[0]);
                ::dup2(ends[1], STDOUT_FILENO);
            });
            process.start(QStringLiteral(ORRERY_CLI),
                          words(verb) + QStringList{QStringLiteral("--model"), tiny_});
            // Far longer than the test may run, were it not ended.
            process.write("{\"prompt\": \"Hello\", \"max_tokens\": 3, \"ignore_eos\": true}\n");
            process.closeWriteChannel();
            const CliResult result = finish(process);
            QCOMPARE(result.status, 1);
            QVERIFY2(result.err.find("The output cannot be written: Broken pipe.") != std::string::npos,
                     result.err.c_str());
        }
    }
#endif
};

QTEST_GUILESS_MAIN(TestCliFiles)
#include "tst_cli_files.moc"
