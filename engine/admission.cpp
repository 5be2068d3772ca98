#include "engine/admission.h"

#include "engine/parameter_table.h"
#include "kernels/error.h"

namespace orrery {

namespace {

void check(const Request& request, int vocab, int capacity, const EngineConfig& config) {
    check_tokens(request.prompt, vocab, "The prompt");
    check_sampling(request.sampling, vocab);
    if (request.samples < 1 || request.samples > max_samples)
        throw Error("samples is " + std::to_string(request.samples) +
                    ": it must be a whole number from 1 to " + std::to_string(max_samples) + '.');
    validate(request);

    const long long length = (long long)(request.prompt.size());
    if (length < capacity)
        return;
    if (length >= config.context)
        throw Error("The prompt has " + std::to_string(length) + " tokens: the context holds " +
                    std::to_string(config.context) + ", one of which is needed for the answer.");
    const long long blocks = length / config.block_size + 1;
    throw Error("The prompt has " + std::to_string(length) + " tokens and needs " + std::to_string(blocks) +
                " blocks with its answer's first token: the cache has " + std::to_string(config.blocks) +
                " of " + std::to_string(config.block_size) + " tokens.");
}

} // namespace

void check_tokens(const std::vector<TokenId>& tokens, int vocab, const char* what) {
    if (tokens.empty())
        throw Error(std::string(what) + " is empty: there must be at least one token.");
    for (size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            throw Error(std::string(what) + " has token " + std::to_string(tokens[i]) + " at position " +
                        std::to_string(i) + ": the vocabulary has " + std::to_string(vocab) + '.');
}

void check_sampling(const SamplingParams& params, int vocab) {
    validate(params);
    for (const auto& [token, bias] : params.logit_bias)
        if (token < 0 || token >= vocab)
            throw Error("logit_bias names token " + std::to_string(token) + ": the vocabulary has " +
                        std::to_string(vocab) + '.');
}

Admission validate(const Request& request, int vocab, int capacity, const EngineConfig& config) {
    try {
        check(request, vocab, capacity, config);
    } catch (const Error& error) {
        return {FinishReason::rejected, error.what()};
    }
    if (request.max_tokens == 0)
        return {FinishReason::length, {}};
    return {};
}

} // namespace orrery
