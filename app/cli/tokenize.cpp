// tokenize and detokenize: JSON lines of text to token ids and back.
#include "app/cli/verbs.h"
#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/parameter.h"
#include "kernels/error.h"

namespace orrery::cli {

namespace {

std::shared_ptr<const Tokenizer> load_tokenizer(const Options& options) {
    return read_tokenizer(*GgufFile::open(model_path(options)));
}

int tokenize(const Options& options) {
    const auto tokenizer = load_tokenizer(options);
    return answer_lines([&](const nlohmann::json& line, int number) -> Json {
        const nlohmann::json& text = required_field(line, "text", number);
        if (!text.is_string())
            refuse_value(line_name(number) + ": 'text'", text, "a string");
        const auto& value = text.get_ref<const std::string&>();
        return {{"ids", tokenizer->encode(value, false, false)},
                {"ids_special", tokenizer->encode(value, true, true)}};
    });
}

int detokenize(const Options& options) {
    const auto tokenizer = load_tokenizer(options);
    return answer_lines([&](const nlohmann::json& line, int number) -> Json {
        const std::vector<TokenId> tokens = read_ids(line, number, tokenizer->size() - 1);
        return {{"text", tokenizer->decode(tokens, true)}, {"text_skip", tokenizer->decode(tokens, false)}};
    });
}

} // namespace

void add_tokenize(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("tokenize", "Token ids of JSON lines of text");
    add_model_options(*verb, options);
    verb->callback([&] { run = [&options] { return tokenize(options); }; });
}

void add_detokenize(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("detokenize", "Text of JSON lines of token ids");
    add_model_options(*verb, options);
    verb->callback([&] { run = [&options] { return detokenize(options); }; });
}

} // namespace orrery::cli
