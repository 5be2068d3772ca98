// tokenize, detokenize and render: text to token ids and back, and a chat template with a context.
#include "tests/app/cli_run.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include <cmath>

using namespace orrery;
using namespace orrery::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class TestCliText : public QObject {
    Q_OBJECT

    QString tiny_;

private slots:
    void initTestCase() { tiny_ = text(tiny_model()); }

    void tokenizeMatchesStoredIds() {
        ORRERY_NEED_TEST_DATA();
        const fs::path folder = data_dir() / "gguf_vocab";
        for (const char* name : {"gpt-2", "llama-spm"}) {
            const auto cases = read_json_lines(folder / (std::string(name) + ".jsonl"));
            std::string input;
            for (const Json& one : cases)
                input += Json{{"text", one["text"]}}.dump() + "\n";
            const fs::path vocab = folder / ("ggml-vocab-" + std::string(name) + ".gguf");
            const CliResult result =
                run_cli({QStringLiteral("tokenize"), QStringLiteral("--model"), text(vocab)}, input);
            QCOMPARE(result.status, 0);
            const std::vector<Json> lines = result.lines();
            QCOMPARE(lines.size(), cases.size());
            std::string ids;
            for (size_t i = 0; i < cases.size(); ++i) {
                // llama-tokenize reads \\n and \\t in its arguments as the characters that they name.
                if (cases[i]["text"].get<std::string>().find('\\') != std::string::npos)
                    continue;
                QCOMPARE(lines[i]["ids"], cases[i]["ids"]);
                QCOMPARE(lines[i]["ids_special"], cases[i]["ids_special"]);
                ids += Json{{"ids", lines[i]["ids"]}}.dump() + "\n";
            }
            QCOMPARE(
                run_cli({QStringLiteral("detokenize"), QStringLiteral("--model"), text(vocab)}, ids).status,
                0);
        }
    }

    void renderWritesExactlyTheText() {
        QTemporaryDir folder;
        QFile file(folder.filePath(QStringLiteral("chat.jinja")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("{% if not messages %}{{ raise_exception('No messages') }}{% endif %}"
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
        file.close();
        const QStringList arguments = {QStringLiteral("render"), QStringLiteral("--template"),
                                       file.fileName()};
        const CliResult good =
            run_cli(arguments, R"({"messages": [{"role": "user", "content": "höchst\n"}]})");
        QCOMPARE(good.status, 0);
        QCOMPARE(good.out, std::string("<user>höchst\n"));
        const CliResult bad = run_cli(arguments, R"({"messages": []})");
        QCOMPARE(bad.status, 1);
        QVERIFY(bad.err.find("No messages") != std::string::npos);
        QCOMPARE(run_cli(arguments, "{").status, 1);
    }

    void refusalsNameTheFault() {
        const std::vector<Json> texts =
            run_cli(words("tokenize --model") + QStringList{tiny_}, "{}\n{\"text\": 5}\n\"a\"\n").lines();
        QCOMPARE(texts.size(), size_t(3));
        QCOMPARE(texts[0]["error"].get<std::string>(), std::string("Line 1 of the input has no 'text'."));
        QCOMPARE(texts[1]["error"].get<std::string>(),
                 std::string("Line 2 of the input: 'text' is 5: it must be a string."));
        QCOMPARE(texts[2]["error"].get<std::string>(),
                 std::string("Line 3 of the input is \"a\": it must be an object."));
        const CliResult ids = run_cli(words("detokenize --model") + QStringList{tiny_},
                                      "{\"ids\": [3, 99999]}\n{\"ids\": [3]}\n");
        QCOMPARE(ids.status, 1);
        const std::string error = ids.lines().at(0)["error"];
        QVERIFY2(error.starts_with(
                     "Line 1 of the input: entry 2 of 'ids' is 99999: it must be a token id, a whole "
                     "number from 0 to "),
                 error.c_str());
        QVERIFY(!ids.lines().at(1).contains("error"));
    }

    void contextsThatAreNone() {
        for (const char* context : {"", "{", "[]", "5", "null"}) {
            const CliResult result = run_cli(words("render --model") + QStringList{tiny_}, context);
            QCOMPARE(result.status, 1);
            QVERIFY2(is_one_sentence(result.err) && result.out.empty(), result.err.c_str());
        }
    }
};

QTEST_GUILESS_MAIN(TestCliText)
#include "tst_cli_text.moc"
