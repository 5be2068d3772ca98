// The default model, held against transformers in float32 on the dequantised weights: stored logits,
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

std::vector<Case> read_cases() {
    std::vector<Case> cases;
    const auto json = test::read_json(test::data_dir() / "real/smollm2-135m-instruct-q4_1.json");
    for (const auto& entry : json.at("cases"))
        cases.push_back({entry.at("name"), entry.at("ids"), entry.at("mean_nll"), entry.at("top_ids"),
                         entry.at("top_logits"), entry.at("greedy"), entry.at("greedy_margin")});
    return cases;
}

/// Mean over positions 1 … of −ln p(ids[i] | ids before it).
double mean_nll(std::span<const float> logits, const std::vector<int32_t>& ids) {
    const size_t vocab = logits.size() / ids.size();
    double sum = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto row = logits.subspan(i * vocab, vocab);
        const double most = *std::max_element(row.begin(), row.end());
        double total = 0;
        for (const float logit : row)
            total += std::exp(static_cast<double>(logit) - most);
        sum += most + std::log(total) - static_cast<double>(row[static_cast<size_t>(ids[i + 1])]);
    }
    return sum / static_cast<double>(ids.size() - 1);
}

struct Tolerance {
    double logit = 0;        ///< largest error of one of the stored logits; 0: not compared
    double nll = 0;          ///< of one prompt's mean negative log-likelihood, as a share of it
    double all_nll = 0;      ///< the same over the tokens of all prompts
    double margin = 0;       ///< greedy tokens are compared until the first whose margin is below
    size_t longest = 0;      ///< prompts with more tokens are left out; 0: none
    size_t greedy_cases = 0; ///< how many of the prompts are continued; 0: all
};

} // namespace

class tst_real_model : public QObject {
    Q_OBJECT

    static void compare(BackendKind kind, const Tolerance& tolerance) {
        const auto file = GgufFile::open(test::default_model());
        const auto backend = kernels::make_backend(kind, 0);
        Decoder decoder(file, read_config(*file), *backend, nullptr, nullptr);
        const auto vocab = static_cast<size_t>(decoder.config().vocab);

        double worst_logit = 0, worst_nll = 0, nll_sum = 0, expected_sum = 0;
        size_t compared = 0, continued = 0;
        for (const Case& each : read_cases()) {
            if (tolerance.longest && each.ids.size() > tolerance.longest)
                continue;
            // Prompt and continuation in one pass: the row of each token predicts the next.
            std::vector<int32_t> ids = each.ids;
            size_t greedy = 0;
            if (tolerance.greedy_cases == 0 || continued < tolerance.greedy_cases) {
                greedy = each.clear_tokens(tolerance.margin);
                continued += greedy > 0;
                if (greedy > 0)
                    ids.insert(ids.end(), each.greedy.begin(),
                               each.greedy.begin() + static_cast<ptrdiff_t>(greedy - 1));
            }
            Forward forward(decoder, *backend, static_cast<int>(ids.size()));
            const std::vector<float> all = forward.run(ids);
            const std::span<const float> logits(all);

            const auto last = logits.subspan((each.ids.size() - 1) * vocab, vocab);
            for (size_t i = 0; i < each.top_ids.size() && tolerance.logit > 0; ++i) {
                const double error = std::abs(
                    static_cast<double>(last[static_cast<size_t>(each.top_ids[i])]) - each.top_logits[i]);
                QVERIFY2(error <= tolerance.logit,
                         (each.name + ": a logit is off by " + std::to_string(error)).c_str());
                worst_logit = std::max(worst_logit, error);
            }
            const double nll = mean_nll(logits.first(each.ids.size() * vocab), each.ids);
            const double error = std::abs(nll / each.mean_nll - 1);
            QVERIFY2(
                error <= tolerance.nll,
                (each.name + ": the likelihood is off by " + std::to_string(100 * error) + " %").c_str());
            worst_nll = std::max(worst_nll, error);
            nll_sum += nll * static_cast<double>(each.ids.size() - 1);
            expected_sum += each.mean_nll * static_cast<double>(each.ids.size() - 1);
            for (size_t i = 0; i < greedy; ++i, ++compared)
                QVERIFY2(test::most_likely(logits.subspan((each.ids.size() - 1 + i) * vocab, vocab)) ==
                             each.greedy[i],
                         (each.name + ": another token at " + std::to_string(i)).c_str());
        }
        const double all_nll = std::abs(nll_sum / expected_sum - 1);
        qInfo("largest error of a logit %.2e, of a prompt's likelihood %.3f %%, of all %.3f %%; %zu greedy "
              "tokens equal",
              worst_logit, 100 * worst_nll, 100 * all_nll, compared);
        QVERIFY(all_nll <= tolerance.all_nll);
        QVERIFY(compared >= 40);
    }

private slots:
    void initTestCase() {
        ORRERY_NEED_TEST_DATA();
        ORRERY_NEED_DEFAULT_MODEL();
    }

    // Float32 throughout, like the stored values. The long prompt is left to faster back ends, for the
    // plain loops take a third of a second per token.
    void reference() {
        compare(
            BackendKind::reference,
            {.logit = 2e-3, .nll = 1e-4, .all_nll = 1e-4, .margin = 0.01, .longest = 100, .greedy_cases = 2});
    }

    // Activations are rounded to 15 bits, which moves logits in the third digit behind the point.
    void cpu() { compare(BackendKind::cpu, {.logit = 5e-2, .nll = 1e-3, .all_nll = 2e-4, .margin = 0.05}); }
};

QTEST_GUILESS_MAIN(tst_real_model)
#include "tst_real_model.moc"
