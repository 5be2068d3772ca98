// The engine with the default model: greedy answers to real prompts, all at once, against those that
// transformers gives in float32 on the dequantised weights; and the same to the last bit however the engine
// goes about it.
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/test_data.h"

#include <QtTest>

using namespace orrery;
using test::Answers;

namespace {

/// The CPU's 8-bit activations move logits by a few tenths: where the two likeliest tokens are closer than
/// this, either of them is right, and what comes after cannot be compared.
constexpr double clear_margin = 0.3;

} // namespace

class TestRealAnswers : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        ORRERY_NEED_TEST_DATA();
        ORRERY_NEED_DEFAULT_MODEL();
    }

    void greedy_answers() {
        const auto json = test::read_json(test::data_dir() / "real/smollm2-135m-instruct-q4_1.json");
        std::vector<Request> requests;
        size_t longest = 0, prompt_tokens = 0;
        for (const auto& entry : json.at("cases")) {
            Request request;
            request.prompt = entry.at("ids").get<std::vector<TokenId>>();
            request.max_tokens = int(entry.at("greedy").size());
            request.ignore_eos = true;
            request.sampling.temperature = 0;
            request.sampling.logprobs = 2;
            longest = std::max(longest, request.prompt.size() + entry.at("greedy").size());
            prompt_tokens += request.prompt.size();
            requests.push_back(std::move(request));
        }
        LoadOptions options;
        options.backend = kernels::BackendKind::cpu;
        const auto model = load_model(test::default_model(), options);
        EngineConfig config;
        config.context = int(longest) + 1;
        config.cache_bytes = size_t(256) << 20;
        config.check = true;
        Engine engine(model, config);
        const Answers answers = test::run_all(engine, requests);

        size_t compared = 0;
        for (size_t i = 0; i < requests.size(); ++i) {
            const auto& entry = json.at("cases")[i];
            const auto expected = entry.at("greedy").get<std::vector<TokenId>>();
            const auto margins = entry.at("greedy_margin").get<std::vector<double>>();
            const test::Answered& answer = answers.at({i + 1, 0});
            QCOMPARE(answer.tokens.size(), expected.size());
            for (size_t n = 0; n < expected.size() && margins[n] >= clear_margin; ++n, ++compared)
                QVERIFY2(answer.tokens[n] == expected[n],
                         (entry.at("name").get<std::string>() + ": another token at " + std::to_string(n))
                             .c_str());
        }
        qInfo("%zu greedy tokens equal", compared);
        QVERIFY(compared >= 40);

        // From the cache.
        const Answers warm = test::run_all(engine, requests);
        size_t cached = 0;
        for (const auto& [key, answer] : answers) {
            QVERIFY2(warm.at(key) == answer, answer.describe().c_str());
            cached += size_t(warm.at(key).usage.cached_tokens);
        }
        QCOMPARE(cached, prompt_tokens - requests.size()); // all but the token that has to be computed

        // In pieces, through a pool that is too small for all of them.
        config.max_chunk = 19;
        config.max_step_tokens = 64;
        config.cache_bytes = 0;
        config.blocks = int(longest) / config.block_size + 8;
        Engine squeezed(model, config);
        const Answers pieces = test::run_all(squeezed, requests);
        for (const auto& [key, answer] : answers)
            QVERIFY2(pieces.at(key) == answer, answer.describe().c_str());
    }
};

QTEST_GUILESS_MAIN(TestRealAnswers)
#include "tst_real_answers.moc"
