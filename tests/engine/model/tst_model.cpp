#include "engine/model/decoder.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/error.h"
#include "tests/support/forward.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <map>
#include <sstream>
#include <utility>

using namespace orrery;
using kernels::BackendKind;
using test::GgufWriter;
using test::TemporaryFolder;

namespace {

std::shared_ptr<Model> load(const std::filesystem::path& path) {
    LoadOptions options;
    options.backend = BackendKind::reference;
    return load_model(path, options);
}

std::string load_error(const std::filesystem::path& path) {
    try {
        load(path);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Writes a model as two files, with its tensors by turns in one and the other.
void write_parts(GgufWriter first, const std::filesystem::path& folder, const std::string& name) {
    GgufWriter second;
    const auto tensors = std::exchange(first.tensors(), {});
    first.u16("split.no", 0)
        .u16("split.count", 2)
        .i32("split.tensors.count", static_cast<int32_t>(tensors.size()));
    second.u16("split.no", 1).u16("split.count", 2);
    for (size_t i = 0; i < tensors.size(); ++i) {
        GgufWriter& part = i % 2 ? second : first;
        const auto& tensor = tensors[i];
        part.tensor(tensor.name, {tensor.dims.rbegin(), tensor.dims.rend()},
                    static_cast<kernels::TensorType>(tensor.type), tensor.bytes);
    }
    first.write(folder / (name + "-00001-of-00002.gguf"));
    second.write(folder / (name + "-00002-of-00002.gguf"));
}

} // namespace

class tst_model : public QObject {
    Q_OBJECT

private slots:
    void a_model_comes_with_everything() {
        const auto model = load(test::tiny_model());
        QCOMPARE(model->path, test::tiny_model());
        QCOMPARE(model->config.layers.size(), size_t(2));
        QCOMPARE(model->tokenizer->size(), model->config.vocab);
        QVERIFY(model->chat_template.has_value());
        Decoder decoder(model->weights, *model->backend);
        test::Forward forward(decoder, *model->backend, 4);
        QCOMPARE(forward.run({1, 2}).size(), size_t(2 * model->config.vocab));
    }

    void a_folder_with_one_model_is_a_model() {
        const TemporaryFolder folder;
        QCOMPARE(load_error(folder.path()),
                 folder.path().string() + " holds no model: there is no .gguf file in this folder.");
        test::tiny_model_writer().write(folder / "a.gguf");
        test::write_file(folder / "README.md", {});
        std::filesystem::create_directory(folder / "b.gguf"); // a folder is no model file
        QCOMPARE(load(folder.path())->path, folder / "a.gguf");
        test::tiny_model_writer().write(folder / "c.gguf");
        QCOMPARE(load_error(folder.path()),
                 folder.path().string() + " holds 2 models, a.gguf and c.gguf: one of them has to be named.");
    }

    void a_split_model_is_one_model() {
        const TemporaryFolder folder;
        write_parts(test::tiny_model_writer(), folder.path(), "m");
        const std::vector<int32_t> ids = {5, 6, 7};
        const auto run = [&](const std::filesystem::path& path) {
            const auto model = load(path);
            Decoder decoder(model->weights, *model->backend);
            test::Forward forward(decoder, *model->backend, 4);
            return forward.run(ids);
        };
        const auto whole = run(test::tiny_model());
        QVERIFY(run(folder.path()) == whole);
        QVERIFY(run(folder / "m-00002-of-00002.gguf") == whole);
    }

    void says_what_cannot_be_loaded() {
        const TemporaryFolder folder;
        QVERIFY(load_error(folder / "gone.gguf").find("gone.gguf cannot be opened: No such file") !=
                std::string::npos);
        GgufWriter vocabulary = test::tiny_model_writer();
        vocabulary.tensors().clear();
        vocabulary.write(folder / "vocabulary.gguf");
        QCOMPARE(load_error(folder / "vocabulary.gguf"),
                 (folder / "vocabulary.gguf").string() + " holds only a vocabulary; it cannot be run.");
    }

    void a_load_can_be_cancelled() {
        std::atomic<bool> cancel = false;
        LoadOptions options;
        options.backend = BackendKind::reference;
        options.cancel = &cancel;
        options.progress = [&](size_t done, size_t total) { cancel = done > total / 2; };
        QVERIFY_THROWS_EXCEPTION(Cancelled, load_model(test::tiny_model(), options));
        cancel = true;
        options.progress = nullptr;
        QVERIFY_THROWS_EXCEPTION(Cancelled, load_model(test::tiny_model(), options));
    }

    void a_broken_chat_template_costs_only_the_chat() {
        const TemporaryFolder folder;
        GgufWriter writer = test::tiny_model_writer();
        writer.drop("tokenizer.chat_template").string("tokenizer.chat_template", "{% for message in %}");
        writer.write(folder / "m.gguf");
        std::ostringstream log;
        const auto usual = spdlog::default_logger();
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
        const auto model = load(folder / "m.gguf");
        spdlog::set_default_logger(usual);
        QVERIFY(!model->chat_template);
        QVERIFY2(log.str().find("the chat template cannot be used") != std::string::npos, log.str().c_str());
        QVERIFY_THROWS_EXCEPTION(Error, model->encode_chat({{"user", "hello"}}));
        QVERIFY(!load(test::tiny_model({.chat_template = false}))->chat_template);
    }

    // Stored token ids of transformers' apply_chat_template().
    void encodes_conversations_as_transformers_does() {
        ORRERY_NEED_TEST_DATA();
        ORRERY_NEED_DEFAULT_MODEL();
        LoadOptions options;
        options.backend = BackendKind::automatic;
        const auto model = load_model(test::default_model(), options);
        const std::map<std::string, std::vector<ChatMessage>> conversations = {
            {"chat: What is the capital of France?", {{"user", "What is the capital of France?"}}},
            {"chat: Name three colours.", {{"system", "You are terse."}, {"user", "Name three colours."}}},
            {"chat: Write a haiku about rain.",
             {{"user", "Hi"},
              {"assistant", "Hello! How can I help?"},
              {"user", "Write a haiku about rain."}}}};
        int compared = 0;
        const auto golden = test::read_json(test::data_dir() / "real/smollm2-135m-instruct-q4_1.json");
        for (const auto& entry : golden.at("cases")) {
            const auto conversation = conversations.find(entry.at("name").get<std::string>());
            if (conversation == conversations.end())
                continue;
            QCOMPARE(model->encode_chat(conversation->second), entry.at("ids").get<std::vector<TokenId>>());
            ++compared;
        }
        QCOMPARE(compared, 3);
    }

    // A model that wants a beginning gets exactly one, whether the template writes it or not.
    void a_conversation_begins_once() {
        const auto ids = [](bool adds_bos, const std::string& chat_template) {
            const TemporaryFolder folder;
            GgufWriter writer = test::tiny_model_writer();
            writer.drop("tokenizer.ggml.add_bos_token").boolean("tokenizer.ggml.add_bos_token", adds_bos);
            writer.boolean("tokenizer.ggml.add_eos_token",
                           true); // must not end a conversation that has just begun
            writer.drop("tokenizer.chat_template").string("tokenizer.chat_template", chat_template);
            writer.write(folder / "m.gguf");
            return load(folder / "m.gguf")->encode_chat({{"user", "x"}});
        };
        const TokenId bos = 1, x = test::tiny_first_byte + 'x';
        QCOMPARE(ids(true, "{{ messages[0].content }}"), (std::vector<TokenId>{bos, x}));
        QCOMPARE(ids(true, "{{ bos_token }}{{ messages[0].content }}"), (std::vector<TokenId>{bos, x}));
        QCOMPARE(ids(false, "{{ messages[0].content }}"), (std::vector<TokenId>{x}));
        QCOMPARE(ids(false, "{{ bos_token }}{{ messages[0].content }}"), (std::vector<TokenId>{bos, x}));
    }
};

QTEST_GUILESS_MAIN(tst_model)
#include "tst_model.moc"
