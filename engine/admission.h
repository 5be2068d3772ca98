// Admission control: a request that makes no sense or can never fit is rejected at once, with the numbers.
#pragma once

#include "engine/config.h"
#include "engine/request.h"

#include <string>

namespace orrery {

struct Admission {
    FinishReason reason = FinishReason::none; ///< none: the request is admitted
    std::string error;                        ///< why it is rejected
};

/// `capacity` is the length of the longest sequence: the context, or less where the pool is smaller.
Admission validate(const Request& request, int vocab, int capacity, const EngineConfig& config);

/// Throws Error where the list is empty or names a token outside of the vocabulary; `what` begins the
/// sentence.
void check_tokens(const std::vector<TokenId>& tokens, int vocab, const char* what);

/// Throws Error where a sampling parameter makes no sense, or names a token outside of the vocabulary.
void check_sampling(const SamplingParams& params, int vocab);

} // namespace orrery
