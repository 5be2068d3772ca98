// Requests whose answers are known: greedy ones, and ones that write what they are told to.
#pragma once

#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/tiny_model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace orrery::test::dictation {

inline constexpr TokenId end_token = 2;

constexpr TokenId token_of(unsigned char byte_index) {
    return tiny_first_byte + TokenId(byte_index);
}

inline Request greedy(std::vector<TokenId> prompt, int max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
}

/// A request whose answer is these tokens, whatever the model thinks: each has its own parameters, and the
/// test changes them between the steps.
inline SamplingParams only(TokenId token) {
    SamplingParams params;
    params.temperature = 0;
    params.logit_bias = {{token, 1e6f}};
    return params;
}

/// Runs one request whose tokens are given; after the last of them, that one is repeated.
inline Answered dictate(Engine& engine, Request request, const std::vector<TokenId>& tokens) {
    request.sampling = only(tokens.front());
    size_t next = 0;
    return run_all(engine, {request},
                   [&](int step) {
                       next = std::min(size_t(step), tokens.size() - 1);
                       engine.retune(1, only(tokens[next]));
                   })
        .at({1, 0});
}

inline std::vector<TokenId> spell(const std::string& text) {
    std::vector<TokenId> tokens;
    for (const char c : text)
        tokens.push_back(token_of(static_cast<unsigned char>(c)));
    return tokens;
}

inline EngineConfig checked() {
    EngineConfig config;
    config.context = 64;
    config.cache_bytes = size_t(4) << 20;
    config.check = true;
    return config;
}

} // namespace orrery::test::dictation
