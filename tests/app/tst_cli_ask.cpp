// ask: the question and what is piped beside it, the answer as text or JSON, and what is said when it was
// cut.
#include "tests/app/cli_run.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

using namespace orrery;
using namespace orrery::test;
using Json = nlohmann::json;

class TestCliAsk : public QObject {
    Q_OBJECT

    QStringList model_;

    /// Tokens of the prompt for a question and a piped text.
    int prompt_tokens(const QStringList& question, const std::string& piped) const {
        const CliResult result = run_cli(words("ask --json --max-tokens 1") + model_ + question, piped);
        return result.status == 0 ? result.lines().at(0)["usage"]["prompt_tokens"].get<int>() : -1;
    }

private slots:
    void initTestCase() { model_ = words("--model") + QStringList{text(tiny_model())}; }

    void answersAsJson() {
        const CliResult result = run_cli(words("ask Hello --json --max-tokens 4 --seed 1") + model_);
        QCOMPARE(result.status, 0);
        const Json answer = result.lines().at(0);
        for (const char* field : {"text", "ids", "finish_reason", "usage", "timings"})
            QVERIFY2(answer.contains(field), field);
        QVERIFY(answer["ids"].size() <= 4);
    }

    /// A piped text stands before the question, a blank line between; neither alone changes the other, and
    /// blank lines within are part of it.
    void aPipedTextIsPartOfTheQuestion() {
        const std::string document = "The lamp is in the hall.\n\nThe key is under the mat.\n";
        const QString question = QStringLiteral("Where is the lamp?");
        const int alone = prompt_tokens({question}, "");
        const int together = prompt_tokens({question}, document);
        QVERIFY(alone > 0 && together > alone);
        QCOMPARE(together, prompt_tokens({QStringLiteral("The lamp is in the hall.\n\nThe key is under the "
                                                         "mat.\n\nWhere is the lamp?")},
                                         ""));
        // Without a question the whole text is one.
        QCOMPARE(
            prompt_tokens({}, document),
            prompt_tokens({QStringLiteral("The lamp is in the hall.\n\nThe key is under the mat.")}, ""));
        // Blank input is none.
        for (const char* blank : {"\n", "  \n\t\r\n"})
            QCOMPARE(prompt_tokens({question}, blank), alone);
    }

    void theWholeInputIsOneQuestion() {
        const CliResult result =
            run_cli(words("ask --max-tokens 3 --ignore-eos") + model_, "One\nTwo\n\nThree");
        QCOMPARE(result.status, 0);
        QVERIFY2(result.err.find("> ") == std::string::npos, result.err.c_str()); // no chat's prompt
    }

    void nothingToAnswerIsRefused() {
        for (const QStringList& question :
             {QStringList(), QStringList{QString()}, QStringList{QStringLiteral(" ")}})
            for (const char* input : {"", "\n\n", " \t\r\n"})
                for (const char* more : {"", "--json"}) {
                    const CliResult result = run_cli(words("ask") + words(more) + model_ + question, input);
                    QCOMPARE(result.status, 1);
                    QVERIFY2(is_one_sentence(result.err) && result.err.find("empty") != std::string::npos,
                             result.err.c_str());
                    QCOMPARE(result.out, std::string());
                }
    }

    void anInputThatCannotBeReadIsRefused() {
        const CliResult result = run_cli(words("ask hi") + model_, {}, [](QProcess& process) {
            process.setStandardInputFile(QStringLiteral("/"));
        });
        QCOMPARE(result.status, 1);
        QVERIFY2(result.err == "orrery-cli: Standard input cannot be read: Is a directory.\n",
                 result.err.c_str());
    }

    void anyBytesAreAnswered() {
        std::string bytes;
        for (int i = 255; i >= 0; --i)
            bytes += char(i);
        const CliResult result = run_cli(words("ask --json --max-tokens 2") + model_, bytes);
        QVERIFY(result.status == 0 || (result.status == 1 && is_one_sentence(result.err)));
    }

    /// An answer that was cut says so on standard error, with the number at fault; one that ended by itself
    /// does not, and standard output has the answer alone.
    void cutsAreSaid() {
        for (const auto& [options, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
                 {"--max-tokens 1 --ignore-eos",
                  "The answer was cut after 1 token: --max-tokens allows no more.\n"},
                 {"--max-tokens 7 --ignore-eos",
                  "The answer was cut after 7 tokens: --max-tokens allows no more.\n"},
                 {"--max-tokens 100 --ignore-eos --time-limit-ms 0",
                  "The answer was cut after 0 tokens: its time limit of 0 ms has passed.\n"}}) {
            const CliResult result = run_cli(words("ask Hello") + words(options) + model_);
            QCOMPARE(result.status, 0);
            QCOMPARE(result.err, std::string(sentence));
            QVERIFY(result.out.ends_with('\n'));
        }
        const CliResult full = run_cli(words("ask Hello --ignore-eos --context 64") + model_);
        QCOMPARE(full.status, 0);
        QVERIFY2(full.err.starts_with("The answer was cut after ") &&
                     full.err.find(": the context is full, with ") != std::string::npos,
                 full.err.c_str());

        const CliResult first = run_cli(words("ask Hello --ignore-eos --max-tokens 20") + model_);
        const CliResult whole = run_cli(words("ask Hello --ignore-eos --max-tokens 20 --stop") +
                                        QStringList{QString::fromStdString(first.out.substr(0, 1))} + model_);
        QCOMPARE(whole.status, 0);
        QCOMPARE(whole.err, std::string());
        // In JSON the finish reason says it.
        const CliResult json = run_cli(words("ask Hello --json --max-tokens 1 --ignore-eos") + model_);
        QCOMPARE(json.err, std::string());
        QCOMPARE(json.lines().at(0)["finish_reason"], "length");
    }

    void aShorterContextIsSaid() {
        const CliResult asked = run_cli(words("ask Hello --context 64 --max-tokens 1 --json") + model_);
        QVERIFY2(asked.err.empty(), asked.err.c_str()); // what was asked for
        const CliResult blocks = run_cli(words("ask Hello --blocks 4 --max-tokens 1 --json") + model_);
        QCOMPARE(blocks.err,
                 std::string("The context is 64 tokens, of 512 that the model was trained for: the cache "
                             "has no more blocks.\n"));
        const CliResult memory = run_cli(words("ask Hello --max-tokens 1 --json --model") +
                                         QStringList{text(tiny_model({.context_length = 100'000'000}))});
        QCOMPARE(memory.status, 0);
        QVERIFY2(
            memory.err.starts_with("The context is ") &&
                memory.err.find(" tokens, of 100,000,000 that the model was trained for: a longer one does "
                                "not fit in memory.\n") != std::string::npos,
            memory.err.c_str());
    }

    void aQuestionTooLongIsRefusedWithTheNumbers() {
        const CliResult result =
            run_cli(words("ask --context 64 --max-tokens 1") + model_, std::string(1000, 'x'));
        QCOMPARE(result.status, 1);
        QVERIFY2(is_one_sentence(result.err) && result.err.find("64") != std::string::npos,
                 result.err.c_str());
    }

    void theDefaultModelKnowsTheCapitalOfFrance() {
        ORRERY_NEED_DEFAULT_MODEL();
        const CliResult result =
            run_cli({QStringLiteral("ask"), QStringLiteral("What is the capital of France?"),
                     QStringLiteral("--model"), text(default_model())});
        QCOMPARE(result.status, 0);
        QVERIFY2(result.out.find("Paris") != std::string::npos, result.out.c_str());
    }
};

QTEST_GUILESS_MAIN(TestCliAsk)
#include "tst_cli_ask.moc"
