// A model that is ready to run: its file, vocabulary, chat template, device and weights.
#pragma once

#include "engine/model/config.h"
#include "engine/model/model_weights.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "kernels/make_backend.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

namespace orrery {

struct LoadOptions {
    kernels::BackendKind backend = kernels::BackendKind::automatic;
    int threads = 0; ///< 0: one per core that this process may use
    LoadProgress progress;
    const std::atomic<bool>* cancel = nullptr; ///< the load ends with Cancelled once this is true
};

struct Model {
    std::filesystem::path path;
    std::shared_ptr<const GgufFile> file;
    ModelConfig config;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::optional<ChatTemplate> chat_template; ///< none where the file has none
    /// Holds the weights. Engines share it, and are therefore created by one thread at a time.
    std::unique_ptr<kernels::Backend> backend;
    std::shared_ptr<const ModelWeights> weights;

    Model() = default;
    ~Model();

    /// Tokens of a conversation, ready to be answered. Throws Error where the model has no chat template.
    std::vector<TokenId> encode_chat(const std::vector<ChatMessage>& messages) const;
};

/// Opens a model file (.gguf) or the folder that holds one. Throws Error, OutOfMemory or Cancelled.
std::shared_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options = {});

} // namespace orrery
