// Real models, held against transformers in float32 on the dequantised weights: stored logits,
// likelihoods and greedy continuations of real prompts.
#include "engine/model/decoder.h"
#include "engine/model/gguf.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "tests/support/forward.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <cmath>

using namespace orrery;
using kernels::BackendKind;
using test::Forward;

namespace {

struct Case {
    std::string name;
    std::vector<int32_t> ids;
    double mean_nll = 0;
    std::vector<int32_t> top_ids;
    std::vector<double> top_logits;
    std::vector<int32_t> greedy;
    std::vector<double> margins;

    /// Greedy tokens up to the first whose margin is too small to tell; the token at the small margin is
    /// not among them.
    size_t clear_tokens(double margin) const {
        size_t count = 0;
        while (count < margins.size() && margins[count] >= margin)
            ++count;
        return count;
    }
};

std::vector<Case> read_cases(const char* file) {
    std::vector<Case> cases;
    const auto json = test::read_json(test::data_dir() / "real" / file);
    for (const auto& entry : json.at("cases"))
        cases.push_back({entry.at("name"), entry.at("ids"), entry.at("mean_nll"), entry.at("top_ids"),
                         entry.at("top_logits"), entry.at("greedy"), entry.at("greedy_margin")});
    return cases;
}

/// The largest error of one of the stored logits of the last position.
double worst_error(const Case& expected, std::span<const float> row) {
    double worst = 0;
    for (size_t i = 0; i < expected.top_ids.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(row[static_cast<size_t>(expected.top_ids[i])]) -
                                         expected.top_logits[i]));
    return worst;
}

/// −ln p(token) under a row of logits.
double nll_of(std::span<const float> row, int32_t token) {
    const double most = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (const float logit : row)
        total += std::exp(static_cast<double>(logit) - most);
    return most + std::log(total) - static_cast<double>(row[static_cast<size_t>(token)]);
}

struct Tolerance {
    double logit = 0;          ///< largest error of one of the stored logits; 0: not compared
    double nll = 0;            ///< of one prompt's mean negative log-likelihood, as a share of it
    double all_nll = 0;        ///< the same over the tokens of all prompts
    double margin = 0;         ///< greedy tokens are compared until the first whose margin is below
    size_t longest = 0;        ///< prompts with more tokens are left out; 0: none
    size_t greedy_cases = 0;   ///< how many of the prompts are continued; 0: all
    size_t greedy_tokens = 40; ///< at least so many of them are compared
};

} // namespace

constexpr const char* smollm2 = "smollm2-135m-instruct-q4_1.json";
constexpr const char* gemma3 = "gemma-3-270m-q4_k_m.json";

class tst_real_model : public QObject {
    Q_OBJECT

    /// `cases` names the stored values of the model.
    static void compare(const std::filesystem::path& path, const char* cases, BackendKind kind,
                        const Tolerance& tolerance) {
        const auto file = GgufFile::open(path);
        const auto backend = kernels::make_backend(kind, 0);
        Decoder decoder(std::make_shared<ModelWeights>(file, read_config(*file), *backend), *backend);
        const auto vocab = static_cast<size_t>(decoder.config().vocab);

        double worst_logit = 0, worst_nll = 0, nll_sum = 0, expected_sum = 0;
        size_t compared = 0, continued = 0;
        for (const Case& each : read_cases(cases)) {
            const size_t prompt = each.ids.size();
            if (tolerance.longest && prompt > tolerance.longest)
                continue;
            // Prompt and continuation together: the row of each token predicts the next.
            std::vector<int32_t> ids = each.ids;
            size_t greedy = 0;
            if (tolerance.greedy_cases == 0 || continued < tolerance.greedy_cases) {
                greedy = each.clear_tokens(tolerance.margin);
                continued += greedy > 0;
                if (greedy > 0)
                    ids.insert(ids.end(), each.greedy.begin(),
                               each.greedy.begin() + static_cast<ptrdiff_t>(greedy - 1));
            }
            // A vocabulary may have a quarter of a million tokens: not all rows at once.
            constexpr size_t rows = 64;
            Forward forward(decoder, *backend, static_cast<int>(ids.size()), kernels::KvType::f32, 16, rows);
            std::vector<float> logits;
            double nll = 0;
            for (size_t i = 0; i < ids.size(); ++i) {
                if (i % rows == 0)
                    logits =
                        forward.run({ids.begin() + static_cast<ptrdiff_t>(i),
                                     ids.begin() + static_cast<ptrdiff_t>(std::min(i + rows, ids.size()))});
                const auto row = std::span<const float>(logits).subspan(i % rows * vocab, vocab);
                if (i + 1 < prompt)
                    nll += nll_of(row, ids[i + 1]);
                if (i + 1 == prompt && tolerance.logit > 0)
                    worst_logit = std::max(worst_logit, worst_error(each, row));
                if (i + 1 >= prompt && i + 1 - prompt < greedy) {
                    QVERIFY2(test::most_likely(row) == each.greedy[i + 1 - prompt],
                             (each.name + ": another token at " + std::to_string(i + 1 - prompt)).c_str());
                    ++compared;
                }
            }
            QVERIFY2(worst_logit <= tolerance.logit,
                     (each.name + ": a logit is off by " + std::to_string(worst_logit)).c_str());
            const auto predicted = static_cast<double>(prompt - 1);
            const double error = std::abs(nll / predicted / each.mean_nll - 1);
            QVERIFY2(
                error <= tolerance.nll,
                (each.name + ": the likelihood is off by " + std::to_string(100 * error) + " %").c_str());
            worst_nll = std::max(worst_nll, error);
            nll_sum += nll;
            expected_sum += each.mean_nll * predicted;
        }
        const double all_nll = std::abs(nll_sum / expected_sum - 1);
        qInfo("largest error of a logit %.2e, of a prompt's likelihood %.3f %%, of all %.3f %%; %zu greedy "
              "tokens equal",
              worst_logit, 100 * worst_nll, 100 * all_nll, compared);
        QVERIFY(all_nll <= tolerance.all_nll);
        QVERIFY(compared >= tolerance.greedy_tokens);
    }

private slots:
    void initTestCase() { ORRERY_NEED_TEST_DATA(); }

    // Float32 throughout, like the stored values. The long prompt is left to faster back ends, for the
    // plain loops take a third of a second per token.
    void smollm2_on_the_reference() {
        ORRERY_NEED_DEFAULT_MODEL();
        compare(
            test::default_model(), smollm2, BackendKind::reference,
            {.logit = 2e-3, .nll = 1e-4, .all_nll = 1e-4, .margin = 0.01, .longest = 100, .greedy_cases = 2});
    }

    // Activations are rounded to 15 bits, which moves logits in the third digit behind the point.
    void smollm2_on_the_cpu() {
        ORRERY_NEED_DEFAULT_MODEL();
        compare(test::default_model(), smollm2, BackendKind::cpu,
                {.logit = 5e-2, .nll = 1e-3, .all_nll = 2e-4, .margin = 0.05});
    }

    // Windows, norms on both sides, a vocabulary of a quarter of a million tokens.
    void gemma3_on_the_reference() {
        ORRERY_NEED_REAL_MODEL("gemma-3-270m-q4_k_m");
        compare(test::real_model("gemma-3-270m-q4_k_m"), gemma3, BackendKind::reference,
                {.logit = 2e-3,
                 .nll = 1e-4,
                 .all_nll = 1e-4,
                 .margin = 0.01,
                 .longest = 5,
                 .greedy_cases = 1,
                 .greedy_tokens = 10});
    }
};

QTEST_GUILESS_MAIN(tst_real_model)
#include "tst_real_model.moc"
