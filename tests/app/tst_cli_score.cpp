// score: logits of every position, and how well a model predicts a text.
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

class TestCliScore : public QObject {
    Q_OBJECT

    QString tiny_;

private slots:
    void initTestCase() { tiny_ = text(tiny_model()); }

    void scoreGivesEveryPosition() {
        const CliResult result = run_cli({QStringLiteral("score"), QStringLiteral("--model"), tiny_,
                                          QStringLiteral("--backend"), QStringLiteral("reference")},
                                         "{\"ids\": [1, 2, 3, 4]}\n{\"ids\": \"no\"}\n");
        QCOMPARE(result.status, 1);
        const std::vector<Json> lines = result.lines();
        QCOMPARE(lines.size(), size_t(2));
        QCOMPARE(lines[0]["logits_shape"][0], 4);
        const auto logits = floats_from_base64(lines[0]["logits_f32_le_base64"]);
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
        const CliResult of_text =
            run_cli(QStringList{QStringLiteral("score"), QStringLiteral("--text"), file.fileName()} + model);
        QCOMPARE(of_text.status, 0);
        const Json ids = run_cli(QStringList{QStringLiteral("tokenize")} + model,
                                 R"({"text": "Hello there, hello again."})")
                             .lines()
                             .at(0)["ids"];
        const Json of_ids = run_cli(QStringList{QStringLiteral("score"), QStringLiteral("--top=1")} + model,
                                    Json{{"ids", ids}}.dump() + "\n")
                                .lines()
                                .at(0);
        const Json score = of_text.lines().at(0);
        QCOMPARE(score["tokens"], ids.size());
        QCOMPARE(score["mean_nll"], of_ids["mean_nll"]);
        QCOMPARE(score["perplexity"].get<double>(), std::exp(score["mean_nll"].get<double>()));
        // Nothing, or too little, to predict.
        QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
        file.close();
        const CliResult nothing =
            run_cli(QStringList{QStringLiteral("score"), QStringLiteral("--text"), file.fileName()} + model);
        QCOMPARE(nothing.status, 1);
        QVERIFY2(is_one_sentence(nothing.err), nothing.err.c_str());
    }

    void scoreMatchesStoredLogits() {
        ORRERY_NEED_TEST_DATA();
        for (const char* name : {"llama", "llama3_rope"}) {
            const Json golden = read_json(data_dir() / "golden" / name / "golden.json");
            const fs::path model = data_dir() / "golden_gguf" / (std::string(name) + ".gguf");
            const CliResult result = run_cli({QStringLiteral("score"), QStringLiteral("--model"), text(model),
                                              QStringLiteral("--backend"), QStringLiteral("reference"),
                                              QStringLiteral("--kv-type"), QStringLiteral("f32")},
                                             Json{{"ids", golden["input_ids"]}}.dump() + "\n");
            QCOMPARE(result.status, 0);
            const auto found = floats_from_base64(result.lines().at(0)["logits_f32_le_base64"]);
            const auto wanted = floats_from_base64(golden["logits_f32_le_base64"]);
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

    void refusalsNameTheFault() {
        const CliResult result = run_cli(words("score --model") + QStringList{tiny_},
                                         "{}\n[1]\n{\"ids\": [3, -1]}\n{\"ids\": 5}\n{\"ids\": [3]}\n");
        QCOMPARE(result.status, 1);
        const std::vector<Json> lines = result.lines();
        QCOMPARE(lines.size(), size_t(5));
        QCOMPARE(lines[0]["error"].get<std::string>(), std::string("Line 1 of the input has no 'ids'."));
        QCOMPARE(lines[1]["error"].get<std::string>(),
                 std::string("Line 2 of the input is an array: it must be an object."));
        QCOMPARE(
            lines[2]["error"].get<std::string>(),
            std::string("Line 3 of the input: entry 2 of 'ids' is -1: it must be a token id, a whole number "
                        "from 0 to 2147483647."));
        QCOMPARE(lines[3]["error"].get<std::string>(),
                 std::string("Line 4 of the input: 'ids' is 5: it must be an array of token ids."));
        QVERIFY(!lines[4].contains("error"));
    }
};

QTEST_GUILESS_MAIN(TestCliScore)
#include "tst_cli_score.moc"
