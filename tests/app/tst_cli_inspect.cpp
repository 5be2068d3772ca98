// inspect: what is in a model file, and raw blocks decoded.
#include "tests/app/cli_run.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include <cmath>
#include <cstring>

using namespace orrery;
using namespace orrery::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class TestCliInspect : public QObject {
    Q_OBJECT

    QString tiny_;

private slots:
    void initTestCase() { tiny_ = text(tiny_model()); }

    void decodedValuesDoNotReplaceTheirBlocks() {
        QTemporaryDir folder;
        QFile blocks(folder.filePath(QStringLiteral("blocks")));
        QVERIFY(blocks.open(QIODevice::WriteOnly));
        blocks.write(QByteArray(34, '\1'));
        blocks.close();
        const QString again = folder.filePath(QStringLiteral("./blocks"));
        const CliResult result = run_cli({QStringLiteral("inspect"), QStringLiteral("--dequantize"),
                                          QStringLiteral("Q8_0"), blocks.fileName(), again});
        QVERIFY(result.status == 1 && is_one_sentence(result.err));
        QCOMPARE(blocks.size(), qint64(34));
    }

    void inspectDecodesRawBlocks() {
        ORRERY_NEED_TEST_DATA();
        QTemporaryDir folder;
        const fs::path data = data_dir() / "quant";
        const Json index = read_json(data / "index.json");
        for (const auto& [type, entry] : index["types"].items()) {
            const QString out = folder.filePath(QString::fromStdString(type));
            QCOMPARE(run_cli({QStringLiteral("inspect"), QStringLiteral("--dequantize"),
                              QString::fromStdString(type), text(data / (type + ".bin")), out})
                         .status,
                     0);
            const std::string found = read_file(out.toStdString());
            const std::string wanted = read_file(data / (type + ".f32"));
            QCOMPARE(found.size(), wanted.size());
            for (size_t i = 0; i < found.size(); i += sizeof(float)) {
                float a = 0;
                float b = 0;
                std::memcpy(&a, found.data() + i, sizeof a);
                std::memcpy(&b, wanted.data() + i, sizeof b);
                QVERIFY2(std::abs(a - b) <= 1e-6f * std::abs(b), type.c_str());
            }
        }
        QCOMPARE(run_cli({QStringLiteral("inspect"), QStringLiteral("--dequantize"), QStringLiteral("Q9_9"),
                          text(data / "Q4_0.bin"), folder.filePath(QStringLiteral("x"))})
                     .status,
                 1);
    }

    void inspectDescribesAModel() {
        const CliResult result =
            run_cli({QStringLiteral("inspect"), QStringLiteral("--model"), tiny_, QStringLiteral("--json")});
        QCOMPARE(result.status, 0);
        const Json description = result.lines().at(0);
        QCOMPARE(description["architecture"], "llama");
        QVERIFY(!description["tensors"].empty());
        QCOMPARE(run_cli({QStringLiteral("inspect"), QStringLiteral("--model"), tiny_}).status, 0);
    }
};

QTEST_GUILESS_MAIN(TestCliInspect)
#include "tst_cli_inspect.moc"
