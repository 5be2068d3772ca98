// The command line as its users and other programs meet it: what goes in, what comes out, and with which exit
// status.
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QtTest>

#include <cmath>
#include <cstring>

using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Result {
    int status = -1;
    std::string out;
    std::string err;

    std::vector<Json> lines() const {
        std::vector<Json> values;
        for (const QByteArray& line : QByteArray::fromStdString(out).split('\n'))
            if (!line.isEmpty())
                values.push_back(Json::parse(line.toStdString()));
        return values;
    }
};

Result run(const QStringList& arguments, const std::string& input = {}) {
    QProcess process;
    process.start(QStringLiteral(ORRERY_CLI), arguments);
    process.write(input.data(), qint64(input.size()));
    process.closeWriteChannel();
    Result result;
    if (process.waitForFinished(300'000) && process.exitStatus() == QProcess::NormalExit)
        result.status = process.exitCode();
    result.out = process.readAllStandardOutput().toStdString();
    result.err = process.readAllStandardError().toStdString();
    return result;
}

QString text(const fs::path& path) {
    return QString::fromStdString(path.string());
}

bool isOneSentence(const std::string& err) {
    const QByteArray trimmed = QByteArray::fromStdString(err).trimmed();
    return !trimmed.isEmpty() && !trimmed.contains('\n');
}

} // namespace

class TestCli : public QObject {
    Q_OBJECT

    QString tiny_;

private slots:
    void initTestCase() { tiny_ = text(orrery::test::tiny_model()); }

    void usageErrorsHaveStatusTwo() {
        QCOMPARE(run({}).status, 2);
        QCOMPARE(run({QStringLiteral("dance")}).status, 2);
        // Whatever is wrong with an option's value; before any model is looked at, and with the option's
        // name.
        for (const char* line : {"ask hi --top-p=7",
                                 "ask hi --top-k=1.5",
                                 "ask hi --temperature=warm",
                                 "ask hi --mirostat=1",
                                 "ask hi --threads=x",
                                 "ask hi --seed=-1",
                                 "ask hi --max-tokens=-1",
                                 "ask hi --kv-type=f17",
                                 "ask hi --backend=abacus",
                                 "ask hi --policy=random",
                                 "generate --block-size=0",
                                 "generate --blocks=-1",
                                 "generate --context=1",
                                 "generate --context=-1",
                                 "generate --max-step-tokens=-1",
                                 "generate --max-sequences=0",
                                 "score --top=0",
                                 "bench --workload=speed",
                                 "bench --workload=decode,speed",
                                 "bench --repeats=0",
                                 "selftest --only=nothing"}) {
            const QString arguments = QString::fromLatin1(line);
            const QString option = arguments.section(QStringLiteral("--"), 1).section('=', 0, 0);
            const Result result = run(arguments.split(' '));
            const QString error = QString::fromStdString(result.err).replace('_', '-');
            QVERIFY2(result.status == 2 && result.out.empty() && error.contains(option),
                     qPrintable(arguments + QStringLiteral(": ") + error));
        }
        QCOMPARE(run({QStringLiteral("--help")}).status, 0);
        QCOMPARE(run({QStringLiteral("--version")}).status, 0);
    }

    void usageErrorsAreOneSentence() {
        for (const char* line :
             {"", "dance", "ask --json", "ask hi --top-p 7", "score --loud", "bench --repeats"}) {
            const Result result = run(QString::fromLatin1(line).split(' ', Qt::SkipEmptyParts));
            QVERIFY2(result.status == 2 && result.out.empty() && isOneSentence(result.err), line);
        }
    }

    void decodedValuesDoNotReplaceTheirBlocks() {
        QTemporaryDir folder;
        QFile blocks(folder.filePath(QStringLiteral("blocks")));
        QVERIFY(blocks.open(QIODevice::WriteOnly));
        blocks.write(QByteArray(34, '\1'));
        blocks.close();
        const QString again = folder.filePath(QStringLiteral("./blocks"));
        const Result result = run({QStringLiteral("inspect"), QStringLiteral("--dequantize"),
                                   QStringLiteral("Q8_0"), blocks.fileName(), again});
        QVERIFY(result.status == 1 && isOneSentence(result.err));
        QCOMPARE(blocks.size(), qint64(34));
    }

    void whatIsRefusedHasStatusOneAndOneSentence() {
        QTemporaryDir folder;
        QFile broken(folder.filePath(QStringLiteral("broken.gguf")));
        QVERIFY(broken.open(QIODevice::WriteOnly));
        broken.write("GGUF\3\0\0\0");
        broken.close();
        for (const QString& model :
             {QStringLiteral("/nowhere/model.gguf"), broken.fileName(), folder.path()}) {
            for (const char* verb : {"ask", "generate", "score", "inspect", "tokenize"}) {
                QStringList arguments = {QString::fromLatin1(verb), QStringLiteral("--model"), model};
                if (arguments.first() == QStringLiteral("ask"))
                    arguments << QStringLiteral("hi");
                const Result result = run(arguments, "{\"ids\": [1]}\n");
                QCOMPARE(result.status, 1);
                QVERIFY2(isOneSentence(result.err), result.err.c_str());
                QCOMPARE(result.out, std::string());
            }
        }
    }

    void generateAnswersInOrderAndSaysWhatItRefuses() {
        const std::string input =
            R"({"ids": [72, 101, 108], "max_tokens": 5, "temperature": 0, "ignore_eos": true}
this is no JSON
{"prompt": "Hello", "max_tokens": 3, "temperature": 1, "seed": 7, "ignore_eos": true, "logprobs": 2}

{"ids": [1], "top_p": 3}
{"ids": [], "max_tokens": 3}
{"ids": [999999], "max_tokens": 3}
{"prompt": "Hello", "max_tokens": 3, "temperature": 1, "seed": 7, "ignore_eos": true, "logprobs": 2}
)";
        const Result result = run({QStringLiteral("generate"), QStringLiteral("--model"), tiny_}, input);
        QCOMPARE(result.status, 1);
        const std::vector<Json> lines = result.lines();
        QCOMPARE(lines.size(), size_t(7));
        QCOMPARE(lines[0]["ids"].size(), size_t(5));
        QCOMPARE(lines[0]["finish_reason"], "length");
        for (const size_t refused : {1, 3, 4, 5}) {
            QCOMPARE(lines[refused]["finish_reason"], "rejected");
            QVERIFY(!lines[refused]["error"].get<std::string>().empty());
        }
        QVERIFY(lines[3]["error"].get<std::string>().find("top_p") != std::string::npos);
        QVERIFY(lines[1]["error"].get<std::string>().find("Line 2") != std::string::npos);
        QCOMPARE(lines[2]["logprobs"].size(), size_t(3));
        QCOMPARE(lines[2]["top_logprobs"][0].size(), size_t(2));
        QCOMPARE(lines[6]["ids"], lines[2]["ids"]);
        QCOMPARE(lines[6]["logprobs"], lines[2]["logprobs"]);
    }

    void theNaiveLoopGivesTheSameTokens() {
        const std::string input =
            R"({"ids": [72, 101, 108, 108, 111], "max_tokens": 12, "temperature": 0, "ignore_eos": true}
{"ids": [40, 41], "max_tokens": 12, "temperature": 0, "ignore_eos": true}
)";
        const QStringList arguments = {QStringLiteral("generate"), QStringLiteral("--model"), tiny_};
        const std::vector<Json> cached = run(arguments, input).lines();
        const std::vector<Json> naive =
            run(arguments + QStringList{QStringLiteral("--naive")}, input).lines();
        QCOMPARE(cached.size(), size_t(2));
        QCOMPARE(naive.size(), size_t(2));
        for (size_t i = 0; i < 2; ++i)
            QCOMPARE(naive[i]["ids"], cached[i]["ids"]);
    }

    void samplesOfOneRequestDifferAndRepeat() {
        const std::string input =
            R"({"prompt": "Once", "max_tokens": 16, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 3, "n": 3, "ignore_eos": true})"
            "\n";
        const QStringList arguments = {QStringLiteral("generate"), QStringLiteral("--model"), tiny_};
        const Result first = run(arguments, input);
        const Json samples = first.lines().at(0)["samples"];
        QCOMPARE(samples.size(), size_t(3));
        QVERIFY(samples[0]["ids"] != samples[1]["ids"]);
        QVERIFY(samples[1]["ids"] != samples[2]["ids"]);
        const Json again = run(arguments, input).lines().at(0)["samples"];
        for (size_t i = 0; i < 3; ++i)
            QCOMPARE(again[i]["ids"], samples[i]["ids"]);
    }

    void scoreGivesEveryPosition() {
        const Result result = run({QStringLiteral("score"), QStringLiteral("--model"), tiny_,
                                   QStringLiteral("--backend"), QStringLiteral("reference")},
                                  "{\"ids\": [1, 2, 3, 4]}\n{\"ids\": \"no\"}\n");
        QCOMPARE(result.status, 1);
        const std::vector<Json> lines = result.lines();
        QCOMPARE(lines.size(), size_t(2));
        QCOMPARE(lines[0]["logits_shape"][0], 4);
        const auto logits = orrery::test::floats_from_base64(lines[0]["logits_f32_le_base64"]);
        QCOMPARE(logits.size(), 4 * lines[0]["logits_shape"][1].get<size_t>());
        QVERIFY(lines[1].contains("error"));
    }

    void scoreOfATextIsThatOfItsTokens() {
        QTemporaryDir folder;
        QFile file(folder.filePath(QStringLiteral("text")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("Hello there, hello again.");
        file.close();
        const QStringList model = {QStringLiteral("--model"), tiny_};
        const Result of_text =
            run(QStringList{QStringLiteral("score"), QStringLiteral("--text"), file.fileName()} + model);
        QCOMPARE(of_text.status, 0);
        const Json ids =
            run(QStringList{QStringLiteral("tokenize")} + model, R"({"text": "Hello there, hello again."})")
                .lines()
                .at(0)["ids"];
        const Json of_ids = run(QStringList{QStringLiteral("score"), QStringLiteral("--top=1")} + model,
                                Json{{"ids", ids}}.dump() + "\n")
                                .lines()
                                .at(0);
        const Json score = of_text.lines().at(0);
        QCOMPARE(score["tokens"], ids.size());
        QCOMPARE(score["mean_nll"], of_ids["mean_nll"]);
        QCOMPARE(score["perplexity"].get<double>(), std::exp(score["mean_nll"].get<double>()));
        // Nothing, or too little, to foresee.
        QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
        file.close();
        const Result nothing =
            run(QStringList{QStringLiteral("score"), QStringLiteral("--text"), file.fileName()} + model);
        QCOMPARE(nothing.status, 1);
        QVERIFY2(isOneSentence(nothing.err), nothing.err.c_str());
    }

    void scoreMatchesStoredLogits() {
        ORRERY_NEED_TEST_DATA();
        for (const char* name : {"llama", "llama3_rope"}) {
            const Json golden =
                orrery::test::read_json(orrery::test::data_dir() / "golden" / name / "golden.json");
            const fs::path model = orrery::test::data_dir() / "golden_gguf" / (std::string(name) + ".gguf");
            const Result result = run({QStringLiteral("score"), QStringLiteral("--model"), text(model),
                                       QStringLiteral("--backend"), QStringLiteral("reference"),
                                       QStringLiteral("--kv-type"), QStringLiteral("f32")},
                                      Json{{"ids", golden["input_ids"]}}.dump() + "\n");
            QCOMPARE(result.status, 0);
            const auto found = orrery::test::floats_from_base64(result.lines().at(0)["logits_f32_le_base64"]);
            const auto wanted = orrery::test::floats_from_base64(golden["logits_f32_le_base64"]);
            QCOMPARE(found.size(), wanted.size());
            float largest = 0;
            float difference = 0;
            for (size_t i = 0; i < wanted.size(); ++i) {
                largest = std::max(largest, std::abs(wanted[i]));
                difference = std::max(difference, std::abs(wanted[i] - found[i]));
            }
            QVERIFY2(difference <= 1e-4f * largest, std::to_string(difference / largest).c_str());
        }
    }

    void tokenizeMatchesStoredIds() {
        ORRERY_NEED_TEST_DATA();
        const fs::path folder = orrery::test::data_dir() / "gguf_vocab";
        for (const char* name : {"gpt-2", "llama-spm"}) {
            const auto cases = orrery::test::read_json_lines(folder / (std::string(name) + ".jsonl"));
            std::string input;
            for (const Json& one : cases)
                input += Json{{"text", one["text"]}}.dump() + "\n";
            const fs::path vocab = folder / ("ggml-vocab-" + std::string(name) + ".gguf");
            const Result result =
                run({QStringLiteral("tokenize"), QStringLiteral("--model"), text(vocab)}, input);
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
            QCOMPARE(run({QStringLiteral("detokenize"), QStringLiteral("--model"), text(vocab)}, ids).status,
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
        const Result good = run(arguments, R"({"messages": [{"role": "user", "content": "höchst\n"}]})");
        QCOMPARE(good.status, 0);
        QCOMPARE(good.out, std::string("<user>höchst\n"));
        const Result bad = run(arguments, R"({"messages": []})");
        QCOMPARE(bad.status, 1);
        QVERIFY(bad.err.find("No messages") != std::string::npos);
        QCOMPARE(run(arguments, "{").status, 1);
    }

    void inspectDecodesRawBlocks() {
        ORRERY_NEED_TEST_DATA();
        QTemporaryDir folder;
        const fs::path data = orrery::test::data_dir() / "quant";
        const Json index = orrery::test::read_json(data / "index.json");
        for (const auto& [type, entry] : index["types"].items()) {
            const QString out = folder.filePath(QString::fromStdString(type));
            QCOMPARE(run({QStringLiteral("inspect"), QStringLiteral("--dequantize"),
                          QString::fromStdString(type), text(data / (type + ".bin")), out})
                         .status,
                     0);
            const std::string found = orrery::test::read_file(out.toStdString());
            const std::string wanted = orrery::test::read_file(data / (type + ".f32"));
            QCOMPARE(found.size(), wanted.size());
            for (size_t i = 0; i < found.size(); i += sizeof(float)) {
                float a = 0;
                float b = 0;
                std::memcpy(&a, found.data() + i, sizeof a);
                std::memcpy(&b, wanted.data() + i, sizeof b);
                QVERIFY2(std::abs(a - b) <= 1e-6f * std::abs(b), type.c_str());
            }
        }
        QCOMPARE(run({QStringLiteral("inspect"), QStringLiteral("--dequantize"), QStringLiteral("Q9_9"),
                      text(data / "Q4_0.bin"), folder.filePath(QStringLiteral("x"))})
                     .status,
                 1);
    }

    void inspectDescribesAModel() {
        const Result result =
            run({QStringLiteral("inspect"), QStringLiteral("--model"), tiny_, QStringLiteral("--json")});
        QCOMPARE(result.status, 0);
        const Json description = result.lines().at(0);
        QCOMPARE(description["architecture"], "llama");
        QVERIFY(!description["tensors"].empty());
        QCOMPARE(run({QStringLiteral("inspect"), QStringLiteral("--model"), tiny_}).status, 0);
    }

    void askAnswersAsJson() {
        const Result result = run({QStringLiteral("ask"), QStringLiteral("Hello"), QStringLiteral("--model"),
                                   tiny_, QStringLiteral("--json"), QStringLiteral("--max-tokens"),
                                   QStringLiteral("4"), QStringLiteral("--seed"), QStringLiteral("1")});
        QCOMPARE(result.status, 0);
        const Json answer = result.lines().at(0);
        for (const char* field : {"text", "ids", "finish_reason", "usage", "timings"})
            QVERIFY2(answer.contains(field), field);
        QVERIFY(answer["ids"].size() <= 4);
    }

    void theDefaultModelKnowsTheCapitalOfFrance() {
        ORRERY_NEED_DEFAULT_MODEL();
        const Result result = run({QStringLiteral("ask"), QStringLiteral("What is the capital of France?"),
                                   QStringLiteral("--model"), text(orrery::test::default_model())});
        QCOMPARE(result.status, 0);
        QVERIFY2(result.out.find("Paris") != std::string::npos, result.out.c_str());
    }
};

QTEST_GUILESS_MAIN(TestCli)
#include "tst_cli.moc"
