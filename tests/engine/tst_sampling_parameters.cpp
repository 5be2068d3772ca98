#include "engine/sampling_parameters.h"
#include "kernels/error.h"

#include <QtTest>

#include <cmath>

using namespace orrery;
using Json = nlohmann::json;

class TestSamplingParameters : public QObject {
    Q_OBJECT

    /// The sentence that an object is refused with, or an empty one where it is taken.
    static std::string refusal(const Json& object) {
        try {
            validate(request_from_json(object).sampling);
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }

private slots:
    void everyNumberGoesThroughJson() {
        for (const SamplingParameter& parameter : sampling_parameters()) {
            SamplingParams params;
            const double value =
                parameter.low + (std::isinf(parameter.high) ? 7 : (parameter.high - parameter.low));
            set_from_json(params, Json{{parameter.name, value}});
            QCOMPARE(float(parameter.get(params)), float(value));
            validate(params);
        }
    }

    void valuesOutOfRangeAreRefusedByName() {
        for (const SamplingParameter& parameter : sampling_parameters()) {
            std::vector<double> bad = {parameter.low - 1, NAN};
            if (!std::isinf(parameter.high))
                bad.push_back(parameter.high + 1);
            for (double value : bad) {
                SamplingParams params;
                QVERIFY_EXCEPTION_THROWN(parameter.set(params, value), Error);
            }
            const std::string sentence = refusal(Json{{parameter.name, parameter.low - 1}});
            QVERIFY2(sentence.find(parameter.name) != std::string::npos, sentence.c_str());
            QVERIFY(!refusal(Json{{parameter.name, "warm"}}).empty());
            QVERIFY(!refusal(Json{{parameter.name, Json::array()}}).empty());
        }
    }

    /// A parameter at either of its limits is valid, and stays so when it is read back and checked again.
    void limitsAreInside() {
        for (const SamplingParameter& parameter : sampling_parameters())
            for (const double limit : {parameter.low, std::min(parameter.high, 1000.0)}) {
                SamplingParams params;
                parameter.set(params, limit);
                validate(params);
                parameter.set(params, parameter.get(params));
            }
    }

    void fractionsOfWholeNumbersAreRefused() {
        QVERIFY(!refusal(Json{{"top_k", 1.5}}).empty());
        QVERIFY(!refusal(Json{{"max_tokens", 1.5}}).empty());
        QVERIFY(!refusal(Json{{"top_k", 1e12}}).empty());
    }

    void fieldsOfARequest() {
        std::vector<std::string> unknown;
        const Request request = request_from_json(
            Json::parse(R"({"ids": [1, 2], "max_tokens": 5, "stop": ["a", "b"], "ignore_eos": true, "n": 3,
                            "seed": 18446744073709551615, "logit_bias": {"5": -1.5}, "order": ["top_k", "temperature"],
                            "logprobs": true, "time_limit_ms": 20, "colour": 1})"),
            &unknown);
        QCOMPARE(request.prompt, (std::vector<TokenId>{1, 2}));
        QCOMPARE(request.max_tokens, 5);
        QCOMPARE(request.stop, (std::vector<std::string>{"a", "b"}));
        QVERIFY(request.ignore_eos);
        QCOMPARE(request.samples, 3);
        QCOMPARE(*request.sampling.seed, std::numeric_limits<uint64_t>::max());
        QCOMPARE(request.sampling.logit_bias.size(), size_t(1));
        QCOMPARE(request.sampling.order, (std::vector{SamplerStage::top_k, SamplerStage::temperature}));
        QCOMPARE(request.sampling.logprobs, 0);
        QCOMPARE(request.time_limit->count(), 20);
        QCOMPARE(unknown, std::vector<std::string>{"colour"});
    }

    void wrongKindsAreRefused() {
        for (const char* text :
             {R"({"ids": 5})", R"({"ids": [-1]})", R"({"ids": ["a"]})", R"({"ids": [99999999999]})",
              R"({"stop": 3})", R"({"stop": [""]})", R"({"ignore_eos": 1})", R"({"n": 0})",
              R"({"seed": 0.5})", R"({"logit_bias": [1]})", R"({"logit_bias": {"x": 1}})",
              R"({"order": ["heat"]})", R"({"order": ["top_k", "top_k"]})", R"({"mirostat": 1})",
              R"({"min_tokens": -1})", R"([])"})
            QVERIFY2(!refusal(Json::parse(text)).empty(), text);
    }
};

QTEST_GUILESS_MAIN(TestSamplingParameters)
#include "tst_sampling_parameters.moc"
