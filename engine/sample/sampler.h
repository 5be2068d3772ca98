// The sampler chain: logits in, one token out.
#pragma once

#include "engine/request.h"

#include <span>
#include <vector>

namespace orrery {

/// Uniform numbers as a pure function of what they are for, so that a request's tokens depend neither on
/// its neighbours nor on the order of work (counter-based generator; Salmon et al. 2011, Philox 4×32-10).
/// `draw` tells the draws for one token apart.
double uniform(uint64_t seed, uint32_t sample, uint32_t position, uint32_t draw);

/// A seed that has not been used before.
uint64_t fresh_seed();

struct Sample {
    TokenId token = 0;
    float logprob = 0.0f; ///< natural log of the token's probability under the model's own softmax
    std::vector<TokenLogprob> top_logprobs;
    std::vector<StageTrace> trace;
};

/// Draws the tokens of one sequence. Keeps what must be remembered between two tokens (Mirostat's state).
class Sampler {
public:
    /// `seed` must be set in `params` or given here.
    Sampler(SamplingParams params, uint64_t seed, uint32_t sample_index);

    /// New parameters from the next token on; the state stays.
    void retune(const SamplingParams& params);

    /// Chooses the next token. `logits` is [vocab], and is not changed; NaN counts as −∞. `tokens` are the
    /// sequence so far, the first `prompt_tokens` of them the prompt; the new token's position is
    /// tokens.size(). `mask`, where not empty, holds one bit for each token, least significant first: tokens
    /// whose bit is 0 cannot be drawn. Ties go to the smaller id. Throws Error where no token can be drawn.
    Sample draw(std::span<const float> logits, std::span<const TokenId> tokens, size_t prompt_tokens,
                std::span<const uint64_t> mask = {});

    const SamplingParams& params() const { return params_; }
    uint64_t seed() const { return seed_; }

private:
    SamplingParams params_;
    uint64_t seed_;
    uint32_t sample_index_;
    float mirostat_mu_;
};

} // namespace orrery
