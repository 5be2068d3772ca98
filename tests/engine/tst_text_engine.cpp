#include "engine/text_engine.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

using namespace orrery;

class TestTextEngine : public QObject {
    Q_OBJECT

    std::shared_ptr<Model> model_;
    inline static const SamplingParams seeded = [] {
        SamplingParams params;
        params.temperature = 1;
        params.seed = 5;
        return params;
    }();

private slots:
    void initTestCase() {
        LoadOptions options;
        options.backend = kernels::BackendKind::reference;
        model_ = load_model(test::tiny_model(), options);
    }

    void manyAnswersAreTheSameAsEachAlone() {
        const std::vector<std::string> prompts = {"the first", "another one", "",
                                                  "a much longer prompt than the others"};
        TextEngine engine(model_);
        std::map<RequestId, std::string> texts;
        std::map<RequestId, std::string> prompt_of;
        for (const std::string& prompt : prompts)
            if (!prompt.empty())
                prompt_of[engine.add_request(prompt, seeded, 20)] = prompt;
        while (engine.has_unfinished_requests())
            for (const TextOutput& output : engine.step())
                texts[output.request] += output.delta;
        QCOMPARE(texts.size(), prompt_of.size());
        for (const auto& [id, prompt] : prompt_of)
            QCOMPARE(texts[id], simple_generate(model_, prompt, seeded, 20));
    }

    /// Each step brings what is new alone, so that the work of an answer grows with its length and not with
    /// the square; the end brings all of it.
    void deltasAreTheText() {
        TextEngine engine(model_);
        engine.add_request("hello", seeded, 12);
        std::string text, whole;
        std::vector<TokenId> tokens;
        while (engine.has_unfinished_requests()) {
            for (const TextOutput& output : engine.step()) {
                text += output.delta;
                if (output.finish == FinishReason::none) {
                    QVERIFY(output.text.empty() && output.tokens.empty());
                    continue;
                }
                whole = output.text;
                tokens = output.tokens;
            }
        }
        QVERIFY(!text.empty());
        QCOMPARE(whole, text);
        QCOMPARE(tokens.size(), size_t(12));
        QCOMPARE(model_->tokenizer->decode(tokens, false), text);
    }

    /// A SentencePiece vocabulary writes a space before every word: one at the beginning of an answer is part
    /// of a continued text, and none of a reply.
    void aContinuedTextKeepsItsSpace_data() {
        QTest::addColumn<QString>("prompt");
        for (const char* prompt : {"the", "the an", "a ", "é", "<s>the", "", "</s>"})
            QTest::newRow(*prompt ? prompt : "none") << prompt;
    }
    void aContinuedTextKeepsItsSpace() {
        QFETCH(QString, prompt);
        test::TinyModelOptions options;
        options.sentencepiece = true;
        const auto model = test::load_tiny(kernels::BackendKind::reference, 1, options);
        const Tokenizer& tokenizer = *model->tokenizer;
        const std::vector<TokenId> ids = tokenizer.encode(prompt.toStdString(), true, true);
        const std::string before = tokenizer.decode(ids, false);
        SamplingParams params = seeded;
        for (const char* piece : {"▁", "▁a", "▁the"}) // else hardly an answer would begin with a space
            params.logit_bias.emplace_back(*tokenizer.find(piece), 12.0f);
        int spaces = 0;
        for (const bool is_reply : {false, true})
            for (const bool cancelled : {false, true})
                for (int seed = 0; seed < 20; ++seed) {
                    Engine engine(model, {});
                    Request request;
                    request.prompt = ids;
                    request.is_reply = is_reply;
                    request.sampling = params;
                    request.sampling.seed = uint64_t(seed);
                    request.max_tokens = 6;
                    request.ignore_eos = true;
                    request.stop = {" the the the the the the t"}; // holds text back
                    engine.add(1, request);
                    std::vector<TokenDelta> deltas;
                    for (int step = 0; !engine.idle(); ++step) {
                        if (cancelled && step == 3)
                            engine.cancel(1);
                        engine.step(deltas);
                    }
                    std::string text;
                    std::vector<TokenId> all = ids;
                    for (const TokenDelta& delta : deltas) {
                        text += delta.text;
                        if (delta.token)
                            all.push_back(*delta.token);
                    }
                    const std::vector<TokenId> answer(all.begin() + int(ids.size()), all.end());
                    spaces += tokenizer.bytes(answer.at(0), false).starts_with(' ');
                    if (is_reply) {
                        QCOMPARE(text, tokenizer.decode(answer, false));
                    } else {
                        QCOMPARE(before + text, tokenizer.decode(all, false));
                    }
                    if (!is_reply && !cancelled) {
                        TextEngine texts(model);
                        // What a text engine is asked in words is the same request, but for ignore_eos.
                        texts.add_request(prompt.toStdString(), request.sampling, 1);
                        for (const TextOutput& output : texts.step())
                            QCOMPARE(
                                before + output.text,
                                tokenizer.decode({all.begin(), all.begin() + int(ids.size()) + 1}, false));
                    }
                }
        QVERIFY(spaces > 20);
    }

    void whatIsRefusedEndsWithItsErrorAndTheOthersGoOn() {
        TextEngine engine(model_);
        SamplingParams senseless = seeded;
        senseless.top_p = 7;
        // The good one ends in the very step that brings the refusal.
        const RequestId good = engine.add_request("hello", seeded, 0);
        const RequestId bad = engine.add_request("hello", senseless, 4);
        std::map<RequestId, TextOutput> ends;
        while (engine.has_unfinished_requests())
            for (const TextOutput& output : engine.step())
                if (output.finish != FinishReason::none)
                    ends[output.request] = output;
        QCOMPARE(ends.size(), size_t(2));
        QVERIFY(ends[good].finish == FinishReason::length && ends[good].error.empty());
        QVERIFY(ends[bad].finish == FinishReason::rejected);
        QVERIFY(ends[bad].error.find("top_p") != std::string::npos);
        QVERIFY_EXCEPTION_THROWN(simple_generate(model_, "hello", senseless, 4), Error);
    }

    /// The README shows the very program that the tests compile.
    void theReadmeShowsTheExample() {
        const std::filesystem::path root = ORRERY_SOURCE_DIR;
        const std::string program = test::read_file(root / "tests/examples/many_prompts.cpp");
        std::string indented;
        std::istringstream lines(program);
        for (std::string line; std::getline(lines, line);)
            indented += (line.empty() ? "" : "    ") + line + "\n";
        for (const char* readme : {"README.md", "README.zh-CN.md"})
            QVERIFY2(test::read_file(root / readme).find(indented) != std::string::npos, readme);
    }
};

QTEST_GUILESS_MAIN(TestTextEngine)
#include "tst_text_engine.moc"
