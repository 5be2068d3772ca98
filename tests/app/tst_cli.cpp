// Options and their help: what is wrong with an option is said in one sentence with status 2, and every
// parameter stands in the help with its range and default.
#include "engine/parameter_table.h"
#include "tests/app/cli_run.h"

#include <QtTest>

using namespace orrery;
using namespace orrery::test;

class TestCli : public QObject {
    Q_OBJECT

private slots:
    void usageErrorsHaveStatusTwo() {
        QCOMPARE(run_cli({}).status, 2);
        QCOMPARE(run_cli(words("dance")).status, 2);
        // Whatever is wrong with an option's value; before any model is looked at, and with the option's
        // name.
        for (const char* line : {"ask hi --top-p=7",
                                 "ask hi --top-p=nan",
                                 "ask hi --top-k=1.5",
                                 "ask hi --temperature=warm",
                                 "ask hi --mirostat=1",
                                 "ask hi --order=top_k,heat",
                                 "ask hi --order=top_k,top_k",
                                 "ask hi --logit-bias={",
                                 "ask hi --logit-bias={\"x\":1}",
                                 "ask hi --dry-breakers=[1]",
                                 "ask hi --stop=",
                                 "ask hi --threads=x",
                                 "ask hi --threads=99999999999999999999",
                                 "ask hi --seed=-1",
                                 "ask hi --seed=18446744073709551616",
                                 "ask hi --max-tokens=-1",
                                 "ask hi --max-tokens=99999999999999999999",
                                 "ask hi --time-limit-ms=-1",
                                 "ask hi --kv-type=f17",
                                 "ask hi --backend=abacus",
                                 "ask hi --policy=random",
                                 "generate --block-size=0",
                                 "generate --blocks=-1",
                                 "generate --context=1",
                                 "generate --context=-1",
                                 "generate --context=1e9999",
                                 "generate --max-step-tokens=-1",
                                 "generate --max-sequences=0",
                                 "score --top=0",
                                 "bench --workload=speed",
                                 "bench --workload=decode,speed",
                                 "bench --repeats=0",
                                 "bench --seed=99999999999999999999",
                                 "selftest --seed=-1",
                                 "inspect --model=",
                                 "selftest --only=nothing"}) {
            const QString arguments = QString::fromLatin1(line);
            const QString option = arguments.section(QStringLiteral("--"), 1).section('=', 0, 0);
            const CliResult result = run_cli(words(line));
            const QString error = QString::fromStdString(result.err).replace('_', '-');
            QVERIFY2(result.status == 2 && result.out.empty() && error.contains(option) &&
                         is_one_sentence(result.err),
                     qPrintable(arguments + QStringLiteral(": ") + error));
        }
        QCOMPARE(run_cli(words("--help")).status, 0);
        QCOMPARE(run_cli(words("--version")).status, 0);
    }

    void usageErrorsAreOneSentence() {
        for (const char* line : {"", "dance", "ask hi --top-p 7", "score --loud", "bench --repeats"}) {
            const CliResult result = run_cli(words(line));
            QVERIFY2(result.status == 2 && result.out.empty() && is_one_sentence(result.err), line);
        }
    }

    /// Every whole number of the table is refused as a fraction, in any notation, and the sentence says what
    /// it must be; the value is never cut to a whole number.
    void wholeNumbersAreWhole() {
        int found = 0;
        for (const Parameter& parameter : parameters()) {
            QString option = QStringLiteral("--") + QString::fromLatin1(parameter.name);
            option.replace('_', '-');
            if (parameter.kind() != ParameterKind::integer ||
                std::string_view("n priority cache_salt logprobs").find(parameter.name) !=
                    std::string_view::npos)
                continue; // not options of ask
            ++found;
            for (const char* value : {"1.5", "1.0", "1e0", "0x1", "1 ", "", "--"}) {
                const CliResult result = run_cli({QStringLiteral("ask"), QStringLiteral("hi"),
                                                  option + QLatin1Char('=') + QString::fromLatin1(value)});
                QCOMPARE(result.status, 2);
                QVERIFY2(is_one_sentence(result.err), result.err.c_str());
            }
            const CliResult result =
                run_cli({QStringLiteral("ask"), QStringLiteral("hi"), option + QStringLiteral("=1.5")});
            QVERIFY2(result.err.find(option.toStdString() + " is '1.5': it must be ") != std::string::npos,
                     result.err.c_str());
        }
        QVERIFY(found >= 7);
    }

    void helpSaysRangesAndDefaults() {
        const std::string ask = run_cli(words("ask --help")).out;
        const std::string generate = run_cli(words("generate --help")).out;
        for (const Parameter& parameter : parameters()) {
            QVERIFY2(generate.find("  " + std::string(parameter.name) + ": ") != std::string::npos,
                     parameter.name);
            QVERIFY2(generate.find(parameter.explanation()) != std::string::npos, parameter.name);
            const std::string fallback = "default " + parameter.text(Request());
            const size_t line = generate.find("  " + std::string(parameter.name) + ": ");
            QVERIFY2(generate.substr(line, generate.find('\n', line) - line).find(fallback) !=
                         std::string::npos,
                     parameter.name);
        }
        for (const char* line :
             {"--top-k INT ", "at least 0, default 40", "0 to 1, default 0.95", "--top-p FLOAT ",
              "0 to 100, default 0\n", "default 1024", "default a fresh one"})
            QVERIFY2(ask.find(line) != std::string::npos, line);
    }
};

QTEST_GUILESS_MAIN(TestCli)
#include "tst_cli.moc"
