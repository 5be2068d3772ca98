// Every stage, alone and in combined orders, against an independent implementation from the papers:
// data/sampler_cases.json is written by tests/tools/sampler_oracle.py. ORRERY_SAMPLER_CASES may name another
// file that it has written, of more cases or another seed.
#include "engine/parameter_table.h"
#include "engine/sample/sampler.h"
#include "kernels/error.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <cmath>
#include <limits>

using namespace orrery;
using nlohmann::json;

namespace {

float logit_from(const json& value) {
    if (!value.is_string())
        return value.get<float>();
    const auto& word = value.get_ref<const std::string&>();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return word == "inf" ? infinity : word == "-inf" ? -infinity : std::numeric_limits<float>::quiet_NaN();
}

/// Parameters with every stage off but for those that the case names.
SamplingParams params_from(const json& test) {
    SamplingParams params;
    params.temperature = 1.0f;
    params.top_k = 0;
    params.top_p = 1.0f;
    params.min_p = 0.0f;
    Request defaults;
    defaults.sampling = params;
    params = request_from_json(test.at("params"), nullptr, std::move(defaults)).sampling;
    if (test.contains("dry_breakers"))
        params.dry_breakers = test.at("dry_breakers").get<std::vector<std::vector<TokenId>>>();
    params.trace = true;
    return params;
}

/// What is wrong with a traced stage; empty where it is as it should be.
QString difference(const StageTrace& actual, const json& expected) {
    const auto name = expected.at("stage").get<std::string>();
    if (actual.stage != name)
        return QString("stage '%1' instead of '%2'").arg(actual.stage.c_str(), name.c_str());
    const QString where = QString("after '%1': ").arg(name.c_str());
    if (actual.left != expected.at("left").get<size_t>())
        return where + QString("%1 candidates left instead of %2")
                           .arg(actual.left)
                           .arg(expected.at("left").get<size_t>());
    const json& candidates = expected.at("candidates");
    double previous = 2.0;
    TokenId previous_token = -1;
    size_t found = 0;
    for (const auto& [token, probability] : actual.candidates) {
        const auto it = candidates.find(std::to_string(token));
        if (probability > previous || (probability == previous && token < previous_token))
            return where + "the candidates are not in order";
        previous = probability;
        previous_token = token;
        if (it == candidates.end()) {
            // The oracle lists a hundred survivors; past them the trace may go on with less likely ones.
            if (probability != 0.0f && candidates.size() < 100)
                return where + QString("token %1 should have been dropped").arg(token);
            continue;
        }
        ++found;
        const double wanted = it->get<double>();
        if (std::abs(probability - wanted) > 1e-6 + 1e-5 * wanted)
            return where + QString("token %1 has probability %2 instead of %3")
                               .arg(token)
                               .arg(double(probability))
                               .arg(wanted);
    }
    if (found != candidates.size() && actual.candidates.size() < 100)
        return where + "candidates are missing";
    return {};
}

} // namespace

class TestSamplerStages : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void stage_by_stage_data();
    void stage_by_stage();
    void every_stage_is_covered();
    void xtc_happens_as_often_as_asked();

private:
    json cases_;
};

void TestSamplerStages::initTestCase() {
    QString path = qEnvironmentVariable("ORRERY_SAMPLER_CASES");
    if (path.isEmpty())
        path = QFINDTESTDATA("data/sampler_cases.json");
    QVERIFY(!path.isEmpty());
    cases_ = test::read_json(path.toStdString());
    QVERIFY(cases_.size() >= 100);
}

void TestSamplerStages::stage_by_stage_data() {
    QTest::addColumn<int>("index");
    for (size_t i = 0; i < cases_.size(); ++i)
        QTest::addRow("case %zu %s", i, cases_[i].at("params").dump().substr(0, 150).c_str()) << int(i);
}

void TestSamplerStages::stage_by_stage() {
    QFETCH(int, index);
    const json& test = cases_[size_t(index)];
    std::vector<float> logits;
    for (const json& value : test.at("logits"))
        logits.push_back(logit_from(value));
    auto tokens = test.at("tokens").get<std::vector<TokenId>>();
    const auto prompt_tokens = test.at("prompt_tokens").get<size_t>();
    std::vector<uint64_t> mask;
    if (!test.at("mask").is_null()) {
        mask.resize((logits.size() + 63) / 64, 0);
        for (const size_t token : test.at("mask").get<std::vector<size_t>>())
            mask[token / 64] |= uint64_t(1) << token % 64;
    }

    Sampler sampler(params_from(test), 1, 0);
    if (test.contains("error")) {
        QVERIFY_EXCEPTION_THROWN(sampler.draw(logits, tokens, prompt_tokens, mask), Error);
        return;
    }
    const std::vector<float> before = logits;
    const Sample sample = sampler.draw(logits, tokens, prompt_tokens, mask);
    QVERIFY(std::memcmp(before.data(), logits.data(), logits.size() * sizeof(float)) == 0);
    const json& stages = test.at("stages");
    for (size_t i = 0; i < std::min(stages.size(), sample.trace.size()); ++i) {
        const QString wrong = difference(sample.trace[i], stages[i]);
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong));
    }
    QCOMPARE(sample.trace.size(), stages.size());
    const auto& last = sample.trace.back().candidates;
    QVERIFY(
        std::ranges::any_of(last, [&](const auto& c) { return c.first == sample.token && c.second > 0; }));

    if (test.contains("second")) {
        // Mirostat's state after the first token; the text is kept as it was, so that only the state differs.
        const Sample next = sampler.draw(logits, tokens, prompt_tokens, mask);
        const QString wrong =
            difference(next.trace.back(), test.at("second").at(std::to_string(sample.token)));
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong));
    }
}

void TestSamplerStages::every_stage_is_covered() {
    std::map<std::string, int> seen;
    int errors = 0;
    for (const json& test : cases_) {
        errors += test.contains("error") ? 1 : 0;
        for (const json& stage : test.value("stages", json::array()))
            ++seen[stage.at("stage").get<std::string>()];
    }
    for (const char* stage : {"penalties", "dry", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc",
                              "temperature", "greedy", "mirostat", "bias and mask"})
        QVERIFY2(seen[stage] >= 5, stage);
    QVERIFY(errors >= 1);
}

void TestSamplerStages::xtc_happens_as_often_as_asked() {
    // Two top choices: with XTC the likelier one is drawn only where it did not happen.
    const std::vector<float> logits = {3.0f, 2.0f, -20.0f};
    SamplingParams params;
    params.temperature = 1.0f;
    params.top_k = 0;
    params.top_p = 1.0f;
    params.min_p = 0.0f;
    params.xtc_probability = 0.3f;
    Sampler sampler(params, 77, 0);
    constexpr size_t n = 20'000;
    const std::vector<TokenId> tokens(n, 0);
    size_t likelier = 0;
    for (size_t i = 0; i < n; ++i)
        likelier += sampler.draw(logits, std::span(tokens).first(i), i).token == 0 ? 1 : 0;
    const double expected = 0.7 / (1.0 + std::exp(-1.0)); // the choice is independent of whether it happens
    const double deviation = std::sqrt(expected * (1 - expected) / n);
    QVERIFY2(std::abs(double(likelier) / n - expected) < 4.5 * deviation,
             qPrintable(QString::number(likelier)));
}

QTEST_GUILESS_MAIN(TestSamplerStages)
#include "tst_sampler_stages.moc"
