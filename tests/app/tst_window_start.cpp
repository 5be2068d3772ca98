// Starting the program with the window: with a display, without one, and with one that cannot be reached.
#include <QElapsedTimer>
#include <QProcess>
#include <QTemporaryDir>
#include <QtTest>

class TestWindowStart : public QObject {
    Q_OBJECT

    QTemporaryDir home_;

    /// The environment of a terminal without any display, and with no models.
    QProcessEnvironment bare() const {
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "QT_QPA_PLATFORM",
                                 "XDG_SESSION_TYPE", "QT_DEBUG_PLUGINS", "LANGUAGE", "LC_ALL"})
            environment.remove(QLatin1String(name));
        environment.insert(QStringLiteral("LANG"), QStringLiteral("C.UTF-8"));
        for (const char* name : {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"})
            environment.insert(QLatin1String(name), home_.path());
        return environment;
    }

    struct Result {
        int status = -1; ///< −1: it ended by a signal
        QString output, errors;
    };

    static Result run(const QStringList& arguments, const QProcessEnvironment& environment) {
        QProcess program;
        program.setProcessEnvironment(environment);
        program.start(QStringLiteral(ORRERY_WINDOW), arguments);
        if (!program.waitForFinished(60'000))
            program.kill();
        program.waitForFinished();
        Result result;
        result.status = program.exitStatus() == QProcess::NormalExit ? program.exitCode() : -1;
        result.output = QString::fromUtf8(program.readAllStandardOutput());
        result.errors = QString::fromUtf8(program.readAllStandardError());
        return result;
    }

private slots:
    void initTestCase() { QVERIFY(home_.isValid()); }

    void helpAndVersionNeedNoDisplay_data() {
        QTest::addColumn<QStringList>("arguments");
        QTest::addColumn<QString>("says");
        QTest::newRow("--version") << QStringList{"--version"} << ORRERY_VERSION;
        QTest::newRow("-v") << QStringList{"-v"} << ORRERY_VERSION;
        QTest::newRow("--help") << QStringList{"--help"} << "--backend";
        QTest::newRow("-h") << QStringList{"-h"} << "--backend";
        QTest::newRow("with others") << QStringList{"--threads", "2", "--version", "model.gguf"}
                                     << ORRERY_VERSION;
    }
    void helpAndVersionNeedNoDisplay() {
        QFETCH(QStringList, arguments);
        QFETCH(QString, says);
        QProcessEnvironment broken = bare();
        broken.insert(QStringLiteral("DISPLAY"), QStringLiteral(":4321"));
        for (const QProcessEnvironment& environment : {bare(), broken}) {
            const Result result = run(arguments, environment);
            QCOMPARE(result.status, 0);
            QVERIFY2(result.output.contains(says), qPrintable(result.output));
            QCOMPARE(result.errors, QString());
        }
    }

    void helpSpeaksTheUsersLanguage() {
        QProcessEnvironment environment = bare();
        environment.insert(QStringLiteral("LANG"), QStringLiteral("zh_CN.UTF-8"));
        const Result result = run({QStringLiteral("--help")}, environment);
        QCOMPARE(result.status, 0);
        QVERIFY2(result.output.contains(QString::fromUtf8("语言模型推理工作台")), qPrintable(result.output));
    }

    void withoutADisplayOneSentenceTellsWhy_data() {
        QTest::addColumn<QString>("variable");
        QTest::addColumn<QString>("value");
        QTest::newRow("none") << QString() << QString();
        QTest::newRow("X that is not there") << "DISPLAY"
                                             << ":4321";
        QTest::newRow("X that is no display") << "DISPLAY"
                                              << "what is this";
        QTest::newRow("Wayland that is not there") << "WAYLAND_DISPLAY"
                                                   << "wayland-4321";
        QTest::newRow("platform that is not there") << "QT_QPA_PLATFORM"
                                                    << "nosuchplatform";
        QTest::newRow("xcb without a display") << "QT_QPA_PLATFORM"
                                               << "xcb";
    }
    void withoutADisplayOneSentenceTellsWhy() {
        QFETCH(QString, variable);
        QFETCH(QString, value);
        QProcessEnvironment environment = bare();
        if (!variable.isEmpty())
            environment.insert(variable, value);
        for (const QStringList& arguments : {QStringList(), QStringList{QStringLiteral("model.gguf")}}) {
            const Result result = run(arguments, environment);
            QCOMPARE(result.status, 1);
            QCOMPARE(result.output, QString());
            QCOMPARE(result.errors.count(QLatin1Char('\n')), 1);
            QVERIFY2(result.errors.contains(QStringLiteral("orrery-cli ask")), qPrintable(result.errors));
            QVERIFY2(result.errors.contains(variable) && result.errors.contains(value),
                     qPrintable(result.errors));
        }
    }

#ifdef Q_OS_UNIX
    void theOffscreenPlatformIsADisplay_data() {
        QTest::addColumn<bool>("byOption");
        QTest::newRow("environment") << false;
        QTest::newRow("option") << true;
    }
    void theOffscreenPlatformIsADisplay() {
        QFETCH(bool, byOption);
        QProcessEnvironment environment = bare();
        if (!byOption)
            environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
        QProcess program;
        program.setProcessEnvironment(environment);
        QStringList arguments = {QStringLiteral("--log"), QStringLiteral("debug")};
        if (byOption)
            arguments << QStringLiteral("-platform") << QStringLiteral("offscreen");
        program.start(QStringLiteral(ORRERY_WINDOW), arguments);
        QByteArray said;
        QTRY_VERIFY_WITH_TIMEOUT((said += program.readAllStandardOutput() + program.readAllStandardError())
                                     .contains("first frame"),
                                 60'000);
        QCOMPARE(program.state(), QProcess::Running);
        program.terminate();
        QVERIFY(program.waitForFinished(60'000));
    }
#endif

    void whatMakesNoSenseIsRefused_data() {
        QTest::addColumn<QStringList>("arguments");
        QTest::newRow("threads") << QStringList{"--threads", "many"};
        QTest::newRow("backend") << QStringList{"--backend", "abacus"};
    }
    void whatMakesNoSenseIsRefused() {
        QFETCH(QStringList, arguments);
        QProcessEnvironment environment = bare();
        environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
        const Result result = run(arguments, environment);
        QCOMPARE(result.status, 2);
        QVERIFY2(result.errors.contains(arguments.last()), qPrintable(result.errors));
    }
};

QTEST_GUILESS_MAIN(TestWindowStart)
#include "tst_window_start.moc"
