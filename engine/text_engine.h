// The engine in a minute: texts in, texts out.
//
//     std::cout << simple_generate(load_model("model.gguf"), "Once upon a time");
//
// and, for many at once, add_request() and step() until nothing is left. Everything else is Engine's.
#pragma once

#include "engine/engine.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

/// What one step brought to one answer.
struct TextOutput {
    RequestId request = 0;
    std::string delta; ///< the text that is new; all of them together are `text`
    FinishReason finish = FinishReason::none;
    // With the end:
    std::string text; ///< the whole answer
    std::vector<TokenId> tokens;
    std::string error; ///< why it was refused or failed, where it was
};

class TextEngine {
public:
    /// Throws Error where the configuration makes no sense, OutOfMemory where the cache does not fit.
    explicit TextEngine(std::shared_ptr<Model> model, const EngineConfig& config = {});

    /// Continues `prompt` as plain text, names of special tokens in it being these tokens (a chat is rendered
    /// by the model's own template first, see Model::encode_chat).
    RequestId add_request(const std::string& prompt, const SamplingParams& params = {}, int max_tokens = 128);

    bool has_unfinished_requests() const { return !engine_.idle(); }

    /// One step of the engine: one output for each answer that it brought further, by ascending request. An
    /// answer that was refused or failed ends as any other, with its error.
    std::vector<TextOutput> step();

private:
    std::shared_ptr<Model> model_;
    Engine engine_;
    RequestId last_ = 0;
    std::map<RequestId, TextOutput> outputs_; ///< of the answers that have not ended
    std::vector<TokenDelta> deltas_;
};

/// The continuation of one prompt. Throws Error where it is refused or fails.
std::string simple_generate(std::shared_ptr<Model> model, const std::string& prompt,
                            const SamplingParams& params = {}, int max_tokens = 128);

} // namespace orrery
