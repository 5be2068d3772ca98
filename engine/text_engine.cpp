#include "engine/text_engine.h"

#include "kernels/error.h"

#include <utility>

namespace orrery {

TextEngine::TextEngine(std::shared_ptr<Model> model, const EngineConfig& config)
    : model_(std::move(model)), engine_(model_, config) {}

RequestId TextEngine::add_request(const std::string& prompt, const SamplingParams& params, int max_tokens) {
    Request request;
    request.prompt = model_->tokenizer->encode(prompt, true, true);
    request.sampling = params;
    request.max_tokens = max_tokens;
    const RequestId id = ++last_;
    engine_.add(id, std::move(request));
    outputs_[id].request = id;
    return id;
}

std::vector<TextOutput> TextEngine::step() {
    deltas_.clear();
    engine_.step(deltas_);
    std::map<RequestId, TextOutput> brought;
    for (TokenDelta& delta : deltas_) {
        TextOutput& output = outputs_.at(delta.request);
        output.text += delta.text;
        if (delta.token)
            output.tokens.push_back(*delta.token);
        TextOutput& news = brought[delta.request];
        news.request = delta.request;
        news.delta += delta.text;
        if (delta.finish == FinishReason::none)
            continue;
        news.finish = delta.finish;
        news.text = std::move(output.text);
        news.tokens = std::move(output.tokens);
        news.error = std::move(delta.error);
        outputs_.erase(delta.request);
    }
    std::vector<TextOutput> result;
    for (auto& [id, output] : brought)
        result.push_back(std::move(output));
    return result;
}

std::string simple_generate(std::shared_ptr<Model> model, const std::string& prompt,
                            const SamplingParams& params, int max_tokens) {
    EngineConfig config;
    config.max_sequences = 1;
    TextEngine engine(std::move(model), config);
    engine.add_request(prompt, params, max_tokens);
    std::string text;
    while (engine.has_unfinished_requests())
        for (TextOutput& output : engine.step()) {
            if (!output.error.empty())
                throw Error(output.error);
            text = std::move(output.text);
        }
    return text;
}

} // namespace orrery
