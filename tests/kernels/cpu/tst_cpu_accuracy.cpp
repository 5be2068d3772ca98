// What rounded activations cost on whole models: not more than they cost llama.cpp, which rounds them to 8
// bits.
#include "engine/model/decoder.h"
#include "engine/model/gguf.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/forward.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <cmath>

using namespace orrery;

class CpuAccuracyTest : public QObject {
    Q_OBJECT

private slots:
    void roundsNoMoreThanLlamaCpp_data();
    void roundsNoMoreThanLlamaCpp();
};

void CpuAccuracyTest::roundsNoMoreThanLlamaCpp_data() {
    QTest::addColumn<QString>("type");
    if (test::data_dir().empty())
        return;
    const auto golden = test::read_json(test::data_dir() / "quant_models/golden.json");
    for (const auto& [type, entry] : golden.at("types").items())
        QTest::newRow(type.c_str()) << QString::fromStdString(type);
}

void CpuAccuracyTest::roundsNoMoreThanLlamaCpp() {
    ORRERY_NEED_TEST_DATA();
    QFETCH(QString, type);
    static const auto golden = test::read_json(test::data_dir() / "quant_models/golden.json");
    const auto& entry = golden.at("types").at(type.toStdString());
    const auto expected = test::floats_from_base64(entry.at("logits_f32_le_base64"));
    std::string why_not;
    const auto backend = kernels::make_cpu_backend(2, why_not);
    if (backend == nullptr)
        QSKIP("this processor has none of the code paths");
    const auto file = GgufFile::open(test::data_dir() / "quant_models" / entry.at("file").get<std::string>());
    Decoder decoder(std::make_shared<ModelWeights>(file, read_config(*file), *backend), *backend);
    test::Forward forward(decoder, *backend, 96);
    auto logits = forward.run(golden.at("input_ids").get<std::vector<int32_t>>());
    QVERIFY(logits.size() >= expected.size());
    logits.erase(logits.begin(), logits.end() - static_cast<ptrdiff_t>(expected.size()));

    double error = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        error += std::pow(double(logits[i]) - double(expected[i]), 2);
        size += std::pow(double(expected[i]), 2);
    }
    const double relative = std::sqrt(error / size);
    const double theirs = entry.at("llama_cpp_rms_error").get<double>();
    qInfo("relative RMS error %.2e, llama.cpp's %.2e, ratio %.2f", relative, theirs, relative / theirs);
    QVERIFY(relative <= 1.1 * theirs);
}

QTEST_GUILESS_MAIN(CpuAccuracyTest)
#include "tst_cpu_accuracy.moc"
