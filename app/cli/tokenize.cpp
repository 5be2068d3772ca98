// tokenize and detokenize: JSON lines of text to token ids and back.
#include "app/cli/verbs.h"
#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "kernels/error.h"

#include <algorithm>

namespace orrery::cli {

namespace {

std::shared_ptr<const Tokenizer> load_tokenizer(const Options& options) {
    return read_tokenizer(*GgufFile::open(model_path(options)));
}

/// Answers every line of the input; a line that is refused gets {"error": …} and exit status 1.
int answer_lines(const std::function<Json(const nlohmann::json& line, int number)>& answer) {
    bool refused = false;
    for_each_input_line([&](const std::string& text, int number) {
        try {
            print_line(answer(parse_line(text, number), number));
        } catch (const Error& error) {
            refused = true;
            print_line({{"error", error.what()}});
        }
    });
    return refused ? 1 : 0;
}

int tokenize(const Options& options) {
    const auto tokenizer = load_tokenizer(options);
    return answer_lines([&](const nlohmann::json& line, int number) -> Json {
        const auto text = line.find("text");
        if (text == line.end() || !text->is_string())
            throw Error("Line " + std::to_string(number) + " of the input: 'text' must be a string.");
        const auto& value = text->get_ref<const std::string&>();
        return {{"ids", tokenizer->encode(value, false, false)},
                {"ids_special", tokenizer->encode(value, true, true)}};
    });
}

int detokenize(const Options& options) {
    const auto tokenizer = load_tokenizer(options);
    return answer_lines([&](const nlohmann::json& line, int number) -> Json {
        const auto ids = line.find("ids");
        const auto is_token = [&](const nlohmann::json& id) {
            return id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < tokenizer->size();
        };
        if (ids == line.end() || !ids->is_array() || !std::all_of(ids->begin(), ids->end(), is_token))
            throw Error("Line " + std::to_string(number) +
                        " of the input: 'ids' must be an array of token ids from 0 to " +
                        std::to_string(tokenizer->size() - 1) + ".");
        const auto tokens = ids->get<std::vector<TokenId>>();
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
