#include "engine/text_engine.h"
#include "kernels/error.h"
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
                texts[output.request] = output.text;
        QCOMPARE(texts.size(), prompt_of.size());
        for (const auto& [id, prompt] : prompt_of)
            QCOMPARE(texts[id], simple_generate(model_, prompt, seeded, 20));
    }

    void textsGrow() {
        TextEngine engine(model_);
        engine.add_request("hello", seeded, 12);
        std::string before;
        while (engine.has_unfinished_requests()) {
            for (const TextOutput& output : engine.step()) {
                QVERIFY(output.text.compare(0, before.size(), before) == 0);
                before = output.text;
            }
        }
        QVERIFY(!before.empty());
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
