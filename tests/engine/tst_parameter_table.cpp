// The table of parameters: every row goes through JSON and back, is refused by name where it lies outside of
// its range, and has a meaning. A sentence of refusal names the field, the entry at fault and what it must
// be.
#include "engine/parameter_table.h"
#include "kernels/error.h"
#include "tests/support/random.h"

#include <QtTest>

#include <cmath>
#include <set>

using namespace orrery;
using Json = nlohmann::json;

class TestParameterTable : public QObject {
    Q_OBJECT

    /// The sentence that an object is refused with, or an empty one where it is taken.
    static std::string refusal(const Json& object) {
        try {
            validate(request_from_json(object));
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }

    static bool is_number(const Parameter& parameter) {
        return parameter.kind() == ParameterKind::integer || parameter.kind() == ParameterKind::real;
    }

    static bool has_range(const Parameter& parameter) {
        return is_number(parameter) && parameter.highest != 0;
    }

    /// Values of every kind that a row takes; random within the range of a number.
    static Json some_value(const Parameter& parameter, std::mt19937_64& random) {
        switch (parameter.kind()) {
        case ParameterKind::integer:
            if (parameter.only_limits)
                return random() % 2 ? parameter.lowest : parameter.highest;
            if (!has_range(parameter))
                return random();
            return std::uniform_int_distribution<int64_t>(int64_t(parameter.lowest),
                                                          int64_t(parameter.highest))(random);
        case ParameterKind::real:
            return std::uniform_real_distribution<float>(float(parameter.lowest),
                                                         float(parameter.highest))(random);
        case ParameterKind::flag:
            return random() % 2 == 0;
        case ParameterKind::strings:
            return Json::array({"a", "höchst", std::to_string(random())});
        case ParameterKind::tokens:
            return Json::array({0, int(random() % 1000), std::numeric_limits<TokenId>::max()});
        case ParameterKind::token_lists:
            return Json::array({Json::array({1}), Json::array({2, int(random() % 1000)})});
        case ParameterKind::token_values:
            return Json{{"7", 1.5}, {std::to_string(random() % 1000 + 10), -2}};
        case ParameterKind::stages:
            return Json::array({"min_p", "temperature"});
        }
        return {};
    }

private slots:
    void everyRowIsWhole() {
        std::set<std::string> names;
        for (const Parameter& parameter : parameters()) {
            QVERIFY2(names.insert(parameter.name).second, parameter.name);
            QVERIFY2(*parameter.meaning && QString::fromUtf8(parameter.meaning).back() != QLatin1Char('.'),
                     parameter.name);
            QVERIFY2(parameter.lowest <= parameter.highest, parameter.name);
            for (const SpecialValue& special : parameter.special)
                if (special.means)
                    QVERIFY2(special.value >= parameter.lowest && special.value <= parameter.highest,
                             parameter.name);
        }
    }

    /// What SamplingParams and Request hold by themselves is valid, and what a help text says is the default.
    void defaultsAreValid() {
        validate(Request());
        validate(SamplingParams());
        QCOMPARE(parameter("top_p").text(Request()), std::string("0.95"));
        QCOMPARE(parameter("top_k").text(Request()), std::string("40"));
        QCOMPARE(parameter("dry_base").text(Request()), std::string("1.75"));
        QCOMPARE(parameter("stop").text(Request()), std::string("none"));
        QCOMPARE(parameter("seed").text(Request()), std::string("a fresh one"));
        Request greedy;
        greedy.sampling.temperature = 0;
        QCOMPARE(parameter("temperature").text(greedy), std::string("0"));
    }

    void everyParameterGoesThroughJsonAndBack() {
        std::mt19937_64 random(test::test_seed());
        for (int round = 0; round < 100; ++round) {
            Json object = Json::object();
            for (const Parameter& parameter : parameters())
                object[parameter.name] = some_value(parameter, random);
            const Request request = request_from_json(object);
            validate(request);
            const Json again = request_to_json(request);
            QCOMPARE(again.size(), object.size());
            for (const Parameter& parameter : parameters()) {
                if (parameter.is_sampling_number())
                    QCOMPARE(float(parameter.get(request.sampling)), object[parameter.name].get<float>());
                if (parameter.kind() != ParameterKind::real)
                    QCOMPARE(again[parameter.name], object[parameter.name]);
            }
            QCOMPARE(request_to_json(request_from_json(again)), again);
        }
    }

    /// A number in JSON has no more digits than its float needs.
    void floatsAreWrittenShort() {
        Request request;
        request.sampling.top_p = 0.9f;
        QCOMPARE(parameter("top_p").write(request).dump(), std::string("0.9"));
    }

    void valuesOutOfRangeAreRefusedByName() {
        for (const Parameter& parameter : parameters()) {
            if (!has_range(parameter))
                continue;
            for (const double value :
                 {parameter.lowest - 1, parameter.highest + 1, 1e300, -1e300, double(NAN)}) {
                const std::string sentence = refusal(Json{{parameter.name, value}});
                QVERIFY2(sentence.find("'" + std::string(parameter.name) + "'") == 0, sentence.c_str());
                QVERIFY2(sentence.find(parameter.wanted()) != std::string::npos, sentence.c_str());
                SamplingParams params;
                if (parameter.is_sampling_number())
                    QVERIFY_EXCEPTION_THROWN(parameter.set(params, value), Error);
            }
        }
    }

    void valuesOfAnotherKindAreRefusedByName() {
        const Json values[] = {
            5, 0.5, true, "warm", Json::array({5}), Json{{"a", 1}}, Json::array({Json::array()})};
        for (const Parameter& parameter : parameters()) {
            int refused = 0;
            for (const Json& value : values) {
                const std::string sentence = refusal(Json{{parameter.name, value}});
                if (sentence.empty())
                    continue;
                ++refused;
                QVERIFY2(sentence.find(parameter.name) != std::string::npos, sentence.c_str());
                QVERIFY2(sentence.find("it must be ") != std::string::npos, sentence.c_str());
            }
            QVERIFY2(refused >= 4, parameter.name);
            QCOMPARE(refusal(Json{{parameter.name, nullptr}}), std::string()); // as if it were absent
        }
    }

    /// A parameter at either of its limits is valid, and stays so when it is read back and checked again.
    void limitsAreInside() {
        for (const Parameter& parameter : parameters()) {
            if (!parameter.is_sampling_number())
                continue;
            for (const double limit : {parameter.lowest, parameter.highest}) {
                SamplingParams params;
                parameter.set(params, limit);
                validate(params);
                parameter.set(params, parameter.get(params));
            }
        }
    }

    void fractionsOfWholeNumbersAreRefused() {
        for (const Parameter& parameter : parameters()) {
            if (parameter.kind() != ParameterKind::integer)
                continue;
            QVERIFY2(!refusal(Json{{parameter.name, 1.5}}).empty(), parameter.name);
            QVERIFY2(!refusal(Json{{parameter.name, 1e30}}).empty(), parameter.name);
            // 2.0 is a whole number.
            QCOMPARE(refusal(Json{{parameter.name, 2.0}}), std::string());
        }
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

    /// Where a list or an object is at fault, the sentence names the entry.
    void entriesAtFaultAreNamed() {
        for (const auto& [text, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
                 {R"([])", "the request is an empty array: it must be an object."},
                 {R"({"ids": 5})", "'ids' is 5: it must be an array of token ids."},
                 {R"({"ids": [1, -1]})",
                  "entry 2 of 'ids' is -1: it must be a token id, a whole number from 0 to 2147483647."},
                 {R"({"ids": ["a"]})",
                  "entry 1 of 'ids' is \"a\": it must be a token id, a whole number from 0 to 2147483647."},
                 {R"({"ids": [99999999999]})",
                  "entry 1 of 'ids' is 99999999999: it must be a token id, a whole "
                  "number from 0 to 2147483647."},
                 {R"({"stop": 3})", "'stop' is 3: it must be a string or an array of strings."},
                 {R"({"stop": ""})", "'stop' is \"\": it must be a string that is not empty."},
                 {R"({"stop": ["a", ""]})",
                  "entry 2 of 'stop' is \"\": it must be a string that is not empty."},
                 {R"({"stop": [{}]})",
                  "entry 1 of 'stop' is an empty object: it must be a string that is not empty."},
                 {R"({"ignore_eos": 1})", "'ignore_eos' is 1: it must be true or false."},
                 {R"({"n": 0})", "'n' is 0: it must be a whole number from 1 to 256."},
                 {R"({"seed": 0.5})",
                  "'seed' is 0.5: it must be a whole number from 0 to 18446744073709551615."},
                 {R"({"seed": -1})",
                  "'seed' is -1: it must be a whole number from 0 to 18446744073709551615."},
                 {R"({"logit_bias": [1]})",
                  "'logit_bias' is an array: it must be an object of token ids and numbers."},
                 {R"({"logit_bias": {"x": 1}})",
                  "a key of 'logit_bias' is \"x\": it must be a token id, a whole "
                  "number from 0 to 2147483647."},
                 {R"({"logit_bias": {"-1": 1}})",
                  "a key of 'logit_bias' is \"-1\": it must be a token id, a whole "
                  "number from 0 to 2147483647."},
                 {R"({"logit_bias": {"5": {}}})",
                  "'logit_bias' of token 5 is an empty object: it must be a number."},
                 {R"({"logit_bias": {"5": "a"}})", "'logit_bias' of token 5 is \"a\": it must be a number."},
                 {R"({"order": ["top_k", "heat"]})", "entry 2 of 'order' is \"heat\": it must be one of "
                                                     "penalties, dry, top_n_sigma, top_k, typical, "
                                                     "top_p, min_p, xtc, temperature."},
                 {R"({"order": ["top_k", "top_k"]})", "'order' names the stage 'top_k' twice."},
                 {R"({"dry_breakers": [[1], []]})",
                  "entry 2 of 'dry_breakers' is an empty array: it must be an array of "
                  "token ids that is not empty."},
                 {R"({"dry_breakers": [[1, "b"]]})",
                  "entry 2 of 'dry_breakers[0]' is \"b\": it must be a token id, "
                  "a whole number from 0 to 2147483647."},
                 {R"({"mirostat": 1})", "'mirostat' is 1: it must be 0 or 2."},
                 {R"({"top_p": "0.5"})", "'top_p' is \"0.5\": it must be a number from 0 to 1."},
                 {R"({"min_tokens": -1})",
                  "'min_tokens' is -1: it must be a whole number from 0 to 2147483647."}})
            QCOMPARE(refusal(Json::parse(text)), std::string(sentence));
    }

    /// A value that would fill a page, or is not printable, is cut to a line of whole characters.
    void longValuesAreCut() {
        for (const std::string& text : {std::string(5000, 'x'), QString(5000, QChar(0x4e2d)).toStdString(),
                                        std::string("a\nb\x1b[31m"), std::string("\xff\xfe")}) {
            const std::string sentence = refusal(Json{{"top_k", text}});
            QVERIFY2(!sentence.empty() && sentence.size() < 160, sentence.c_str());
            QVERIFY(QString::fromStdString(sentence).toStdString() == sentence);
            QVERIFY(sentence.find_first_of("\n\x1b") == std::string::npos);
        }
    }

    /// Values that only a program can set are checked too.
    void valuesOfAProgramAreChecked() {
        const auto refused = [](const auto& change) {
            Request request;
            change(request);
            try {
                validate(request);
            } catch (const Error&) {
                return true;
            }
            return false;
        };
        QVERIFY(refused([](Request& r) { r.sampling.logit_bias = {{3, NAN}}; }));
        QVERIFY(refused([](Request& r) { r.sampling.temperature = NAN; }));
        QVERIFY(refused([](Request& r) { r.sampling.order = {SamplerStage::dry, SamplerStage::dry}; }));
        QVERIFY(refused([](Request& r) { r.stop = {"a", ""}; }));
        QVERIFY(refused([](Request& r) { r.samples = 0; }));
        QVERIFY(refused([](Request& r) { r.max_tokens = -2; }));
    }
};

QTEST_GUILESS_MAIN(TestParameterTable)
#include "tst_parameter_table.moc"
