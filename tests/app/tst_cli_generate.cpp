// generate: JSON lines of requests in, answers out in their order, as they end; what is refused or fails is
// said in its line and in the exit status.
#include "tests/app/cli_run.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QtTest>

#include <limits>

using namespace orrery;
using namespace orrery::test;
using Json = nlohmann::json;

class TestCliGenerate : public QObject {
    Q_OBJECT

    QStringList generate_;

    static std::string line(const Json& request) { return request.dump() + "\n"; }

private slots:
    void initTestCase() { generate_ = words("generate --model") + QStringList{text(tiny_model())}; }

    void answersInOrderAndSaysWhatItRefuses() {
        const std::string input =
            R"({"ids": [72, 101, 108], "max_tokens": 5, "temperature": 0, "ignore_eos": true}
this is no JSON
{"prompt": "Hello", "max_tokens": 3, "temperature": 1, "seed": 7, "ignore_eos": true, "logprobs": 2}

{"ids": [1], "top_p": 3}
{"ids": [], "max_tokens": 3}
{"ids": [999999], "max_tokens": 3}
{"prompt": "Hello", "max_tokens": 3, "temperature": 1, "seed": 7, "ignore_eos": true, "logprobs": 2}
)";
        const CliResult result = run_cli(generate_, input);
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

    /// The sentence names the line, the field or its entry, and what is wrong with it.
    void refusalsNameTheFault() {
        for (const auto& [request, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
                 {"[1]", "Line 1 of the input is an array: it must be an object."},
                 {"5", "Line 1 of the input is 5: it must be an object."},
                 {"{", "Line 1 of the input is not JSON: it breaks at byte 2."},
                 {R"({"prompt": 1e999})", "Line 1 of the input holds a number that is too large."},
                 {R"({})", "Line 1 of the input has neither 'prompt' nor 'ids'."},
                 {R"({"prompt": 5})", "Line 1 of the input: 'prompt' is 5: it must be a string."},
                 {R"({"prompt": "a", "ids": [1]})",
                  "Line 1 of the input has 'prompt' and 'ids': one of them is the prompt."},
                 {R"({"ids": [3], "logit_bias": {"5": "a"}})",
                  "Line 1 of the input: 'logit_bias' of token 5 is \"a\": it must be a number."},
                 {R"({"ids": [3], "stop": ["a", 7]})",
                  "Line 1 of the input: entry 2 of 'stop' is 7: it must be a string that is not empty."}}) {
            const CliResult result = run_cli(generate_, std::string(request) + "\n");
            QCOMPARE(result.status, 1);
            QCOMPARE(result.lines().at(0)["error"].get<std::string>(), std::string(sentence));
        }
    }

    /// Status 1 where any sample of any line was refused or failed; 0 where all ended by themselves.
    void statusSaysWhetherAllWentWell() {
        const Json good = {{"prompt", "Hello"}, {"max_tokens", 3}, {"ignore_eos", true}};
        Json several = good;
        several["n"] = 3;
        QCOMPARE(run_cli(generate_, line(good) + line(several)).status, 0);
        QCOMPARE(run_cli(generate_, "").status, 0);
        for (const Json& bad : {Json{{"prompt", "x"}, {"n", 0}}, Json{{"ids", Json::array()}},
                                Json{{"ids", {-1}}}, Json{{"ids", {99999}}, {"n", 2}}}) {
            QCOMPARE(run_cli(generate_, line(bad) + line(good)).status, 1);
            QCOMPARE(run_cli(generate_, line(good) + line(bad)).status, 1);
        }
    }

    /// A model whose logits are no numbers: every answer, and every one of several samples, ends in an error.
    void statusOneWhereAnswersFail() {
        QTemporaryDir folder;
        GgufWriter writer = tiny_model_writer();
        for (GgufWriter::Tensor& tensor : writer.tensors())
            if (tensor.name == "output.weight")
                for (size_t i = 0; i + 4 <= tensor.bytes.size(); i += 4) {
                    const float nan = std::numeric_limits<float>::quiet_NaN();
                    std::memcpy(tensor.bytes.data() + i, &nan, 4);
                }
        const std::filesystem::path path = folder.filePath(QStringLiteral("nan.gguf")).toStdString();
        writer.write(path);
        for (const int n : {1, 3})
            for (const char* more : {"", " --naive"}) {
                const CliResult result =
                    run_cli(words("generate --model") + QStringList{text(path)} + words(more),
                            line({{"prompt", "hi"}, {"max_tokens", 3}, {"n", n}}));
                QCOMPARE(result.lines().at(0)["finish_reason"], "error");
                QCOMPARE(result.status, 1);
            }
        const CliResult ask = run_cli(words("ask hi --model") + QStringList{text(path)});
        QCOMPARE(ask.status, 1);
        QVERIFY2(is_one_sentence(ask.err), ask.err.c_str());
    }

    /// A short answer is printed while a later line's long one is still being written, and lines keep their
    /// order: the first answer is there before the process has ended.
    void answersArePrintedAsTheyEnd() {
        QProcess process;
        process.start(QStringLiteral(ORRERY_CLI),
                      words("generate --context 200000 --kv-type int4 --threads 1 --model") +
                          QStringList{text(tiny_model({.context_length = 1 << 18}))});
        process.write(line({{"prompt", "Hi"}, {"max_tokens", 2}, {"ignore_eos", true}}).c_str());
        process.write(line({{"prompt", "Hello"}, {"max_tokens", 150'000}, {"ignore_eos", true}}).c_str());
        process.write("no JSON\n");
        process.closeWriteChannel();
        QByteArray seen;
        QElapsedTimer timer;
        timer.start();
        while (!seen.contains('\n') && timer.elapsed() < 120'000 && process.waitForReadyRead(120'000))
            seen += process.readAllStandardOutput();
        QCOMPARE(seen.count('\n'), 1); // the third line waits for the second
        QVERIFY(process.state() == QProcess::Running);
        QCOMPARE(Json::parse(seen.toStdString())["ids"].size(), size_t(2));
        process.kill();
        process.waitForFinished();
    }

    void theNaiveLoopGivesTheSameTokens() {
        const std::string input =
            line({{"ids", {72, 101, 108, 108, 111}},
                  {"max_tokens", 12},
                  {"temperature", 0},
                  {"ignore_eos", true}}) +
            line({{"ids", {40, 41}}, {"max_tokens", 12}, {"temperature", 0}, {"ignore_eos", true}});
        const std::vector<Json> cached = run_cli(generate_, input).lines();
        const std::vector<Json> naive = run_cli(generate_ + words("--naive"), input).lines();
        QCOMPARE(cached.size(), size_t(2));
        QCOMPARE(naive.size(), size_t(2));
        for (size_t i = 0; i < 2; ++i)
            QCOMPARE(naive[i]["ids"], cached[i]["ids"]);
    }

    void samplesOfOneRequestDifferAndRepeat() {
        const std::string input = line({{"prompt", "Once"},
                                        {"max_tokens", 16},
                                        {"temperature", 2},
                                        {"top_k", 0},
                                        {"top_p", 1},
                                        {"min_p", 0},
                                        {"seed", 3},
                                        {"n", 3},
                                        {"ignore_eos", true}});
        const Json samples = run_cli(generate_, input).lines().at(0)["samples"];
        QCOMPARE(samples.size(), size_t(3));
        QVERIFY(samples[0]["ids"] != samples[1]["ids"]);
        QVERIFY(samples[1]["ids"] != samples[2]["ids"]);
        const Json again = run_cli(generate_, input).lines().at(0)["samples"];
        for (size_t i = 0; i < 3; ++i)
            QCOMPARE(again[i]["ids"], samples[i]["ids"]);
    }
};

QTEST_GUILESS_MAIN(TestCliGenerate)
#include "tst_cli_generate.moc"
