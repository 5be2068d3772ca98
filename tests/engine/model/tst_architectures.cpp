// Every family of models, held against transformers: stored logits of every position and a greedy
// continuation, from the same weights in float32.
#include "engine/model/decoder.h"
#include "engine/model/gguf.h"
#include "kernels/make_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/forward.h"
#include "tests/support/golden_model.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <algorithm>
#include <cmath>

using namespace orrery;
using test::Forward;

namespace {

const std::vector<const char*> families = {"llama",    "llama3_rope", "qwen2",     "qwen3",      "gemma2",
                                           "gemma3",   "phi3",        "gpt2",      "granite",    "olmoe",
                                           "mixtral",  "qwen2_moe",   "qwen3_moe", "starcoder2", "stablelm",
                                           "nemotron", "granitemoe",  "olmo2",     "olmo3",      "cohere2",
                                           "smollm3",  "seed_oss",    "hunyuan",   "ernie4_5",   "glm4"};

/// Those whose norms after a part, soft caps or experts the CPU back end does not compute yet.
const std::vector<std::string_view> only_on_the_reference = {
    "gemma2", "gemma3", "olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "olmo2", "olmo3", "glm4"};

std::unique_ptr<kernels::Backend> make_device(bool cpu) {
    if (cpu)
        return kernels::make_backend(kernels::BackendKind::cpu, 2);
    return std::make_unique<kernels::ReferenceBackend>(kernels::ReferenceOptions{.poison = true});
}

struct Loaded {
    explicit Loaded(const std::filesystem::path& path, bool cpu) : backend(make_device(cpu)) {
        const auto file = GgufFile::open(path);
        weights = std::make_shared<ModelWeights>(file, read_config(*file), *backend);
        decoder = std::make_unique<Decoder>(weights, *backend);
    }

    std::unique_ptr<kernels::Backend> backend;
    std::shared_ptr<const ModelWeights> weights;
    std::unique_ptr<Decoder> decoder;
};

double largest(std::span<const float> values) {
    double most = 0;
    for (const float value : values)
        most = std::max(most, std::abs(static_cast<double>(value)));
    return most;
}

/// The largest difference; infinity where a value is not finite.
double largest_error(std::span<const float> actual, std::span<const float> expected) {
    double most = actual.size() == expected.size() ? 0 : INFINITY;
    for (size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
        const double error = std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
        most = std::isfinite(error) ? std::max(most, error) : INFINITY;
    }
    return most;
}

} // namespace

class TestArchitectures : public QObject {
    Q_OBJECT

private slots:
    void agrees_with_transformers_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<bool>("cpu");
        for (const char* name : families) {
            QTest::addRow("%s, reference", name) << name << false;
            if (std::ranges::find(only_on_the_reference, name) == only_on_the_reference.end())
                QTest::addRow("%s, cpu", name) << name << true;
        }
    }

    void agrees_with_transformers() {
        ORRERY_NEED_TEST_DATA();
        QFETCH(QString, name);
        QFETCH(bool, cpu);
        const test::Golden golden = test::golden(name.toStdString());
        const Loaded model(test::golden_model(name.toStdString()), cpu);
        const double tolerance = 1e-4 * largest(golden.logits);

        Forward forward(*model.decoder, *model.backend, 128);
        auto logits = forward.run(golden.ids);
        const double error = largest_error(logits, golden.logits);
        qInfo("largest error of a logit: %.2e of the largest logit", error / largest(golden.logits));
        QVERIFY(error <= tolerance);

        // The greedy continuation; where two tokens are as close as the tolerance, either is right.
        int compared = 0;
        for (size_t i = 0; i < golden.greedy.size(); ++i) {
            const auto last =
                std::span<const float>(logits).last(static_cast<size_t>(model.decoder->config().vocab));
            if (golden.margins[i] > 2 * tolerance) {
                QCOMPARE(test::most_likely(last), golden.greedy[i]);
                ++compared;
            }
            logits = forward.run({golden.greedy[i]});
        }
        QVERIFY(compared >= 20);
    }

    // Law 1, for one sequence: however its tokens are cut into passes, the logits are equal to the last bit.
    void passes_may_be_cut_anywhere_data() { agrees_with_transformers_data(); }

    void passes_may_be_cut_anywhere() {
        ORRERY_NEED_TEST_DATA();
        QFETCH(QString, name);
        QFETCH(bool, cpu);
        const std::vector<int32_t> ids = test::golden(name.toStdString()).ids;
        const Loaded model(test::golden_model(name.toStdString()), cpu);
        Forward forward(*model.decoder, *model.backend, 80);
        const auto whole = forward.run(ids);
        for (const size_t chunk : {1, 7, 16, 33}) {
            forward.reset();
            std::vector<float> pieces;
            for (size_t begin = 0; begin < ids.size(); begin += chunk) {
                const size_t end = std::min(ids.size(), begin + chunk);
                const auto piece =
                    forward.run({ids.begin() + ptrdiff_t(begin), ids.begin() + ptrdiff_t(end)});
                pieces.insert(pieces.end(), piece.begin(), piece.end());
            }
            QVERIFY(pieces == whole);
        }
    }
};

QTEST_GUILESS_MAIN(TestArchitectures)
#include "tst_architectures.moc"
