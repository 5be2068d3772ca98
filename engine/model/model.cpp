#include "engine/model/model.h"

#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace fs = std::filesystem;

namespace orrery {

using platform::to_utf8;

namespace {

/// Whether a name is that of a later part of a split model, NAME-00002-of-00003.gguf.
bool is_later_part(const std::string& stem) {
    // -00002-of-00003
    constexpr size_t length = 15;
    if (stem.size() < length)
        return false;
    const std::string_view end = std::string_view(stem).substr(stem.size() - length);
    const auto digits = [](std::string_view text) {
        return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    };
    return end[0] == '-' && digits(end.substr(1, 5)) && end.substr(6, 4) == "-of-" &&
           digits(end.substr(10)) && end.substr(1, 5) != "00001";
}

/// The one model file of a folder.
fs::path model_in_folder(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code failure;
    for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
        const fs::path& path = it->path();
        std::error_code ignored;
        if (path.extension() == ".gguf" && it->is_regular_file(ignored) &&
            !is_later_part(to_utf8(path.stem())))
            found.push_back(path);
    }
    if (failure)
        throw Error(to_utf8(folder) + " cannot be read: " + failure.message() + ".");
    if (found.empty())
        throw Error(to_utf8(folder) + " holds no model: there is no .gguf file in this folder.");
    std::sort(found.begin(), found.end());
    if (found.size() > 1)
        throw Error(to_utf8(folder) + " holds " + grouped(found.size()) + " models, " +
                    to_utf8(found[0].filename()) + " and " + to_utf8(found[1].filename()) +
                    (found.size() > 2 ? " among them" : "") + ": one of them has to be named.");
    return found.front();
}

/// The model's chat template, or none. One that cannot be read leaves the model without chat.
std::optional<ChatTemplate> read_chat_template(const GgufFile& file) {
    const std::string source = file.get_string("tokenizer.chat_template", "");
    if (source.empty())
        return std::nullopt;
    try {
        return ChatTemplate(source);
    } catch (const Error& error) {
        spdlog::warn("{}: the chat template cannot be used. {}", to_utf8(file.path()), error.what());
        return std::nullopt;
    }
}

} // namespace

Model::~Model() = default;

std::vector<TokenId> Model::encode_chat(const std::vector<ChatMessage>& messages) const {
    if (!chat_template)
        throw Error(to_utf8(path) +
                    ": the model has no chat template, so it cannot be talked with; it can only "
                    "continue a text.");
    const std::vector<TextPiece> pieces = chat_template->render(chat_context(messages, *tokenizer));
    // Not add_special: that may also add a token that ends the text, before the answer has begun. The
    // beginning is added where the model wants one and the template has not written it itself.
    std::vector<TokenId> ids = tokenizer->encode(pieces, false);
    const auto bos = tokenizer->bos();
    if (bos && tokenizer->adds_bos() && (ids.empty() || ids.front() != *bos))
        ids.insert(ids.begin(), *bos);
    return ids;
}

std::shared_ptr<Model> load_model(const fs::path& path, const LoadOptions& options) {
    std::error_code ignored;
    const auto check_cancelled = [&] {
        if (options.cancel && *options.cancel)
            throw Cancelled("Loading " + to_utf8(path) + " was cancelled.");
    };
    auto model = std::make_shared<Model>();
    model->path = fs::is_directory(path, ignored) ? model_in_folder(path) : path;
    model->file = GgufFile::open(model->path);
    model->config = read_config(*model->file);
    if (model->file->tensors().empty())
        throw Error(to_utf8(model->path) + " holds only a vocabulary; it cannot be run.");
    check_cancelled();
    model->tokenizer = read_tokenizer(*model->file);
    model->chat_template = read_chat_template(*model->file);
    check_cancelled();
    model->backend = kernels::make_backend(options.backend, options.threads);
    const auto progress = [&](size_t done, size_t total) {
        model->file->check_intact();
        if (options.progress)
            options.progress(done, total);
    };
    model->weights =
        std::make_shared<ModelWeights>(model->file, model->config, *model->backend, progress, options.cancel);
    model->file->check_intact();
    return model;
}

} // namespace orrery
