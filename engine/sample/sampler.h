// The sampler chain: logits in, one token out.
#pragma once

#include "engine/request.h"
#include "engine/sample/penalties.h"
#include "engine/sample/random.h"
#include "kernels/operations.h"
#include "kernels/sampling/candidates.h"
#include "kernels/sampling/truncation.h"

#include <optional>
#include <span>
#include <vector>

namespace orrery {

struct Sample {
    TokenId token = 0;
    /// Natural log of the token's probability under the model's own softmax, before bias, mask and every
    /// stage. Worked out only where SamplingParams::logprobs ≥ 0; otherwise 0.
    float logprob = 0.0f;
    std::vector<TokenLogprob> top_logprobs; ///< the `logprobs` likeliest, likeliest first
    /// Only where SamplingParams::trace is on: "logits" (the model's own), "bias and mask" where there is one
    /// of them, each stage that is switched on, and "greedy" or "mirostat" where they choose. Followed are
    /// the hundred that are likeliest at first, those that are likeliest after bias and mask, and the drawn
    /// token.
    std::vector<StageTrace> trace;
};

/// Draws the tokens of one sequence. Keeps what must be remembered between two tokens (Mirostat's state), and
/// its scratch memory: in the steady state a draw allocates nothing but what it reports.
///
/// The chain: logit bias, mask, then the stages of SamplingParams::order that are switched on, each on the
/// distribution that those before it have left; a stage that the order does not name does not run. Then one
/// token is drawn. Two settings replace parts of it:
/// - temperature 0 is greedy, whatever the order says of temperature: the likeliest token after bias, mask,
///   penalties and DRY; the other stages have no say.
/// - Mirostat takes the place of the stages that drop candidates, and runs last.
///
/// A logit of NaN counts as −∞, and a token of −∞ is never drawn. Logits of +∞ share all of the probability
/// equally, and penalties do not change that. Candidates are ordered by probability, ties by the smaller id.
class Sampler {
public:
    /// The seed is the one of `params` or, where that has none, `seed`. Throws Error where validate() does.
    Sampler(SamplingParams params, uint64_t seed, uint32_t sample_index);

    /// New parameters from the next token on; the seed and Mirostat's state stay. Throws Error where
    /// validate() does.
    void retune(const SamplingParams& params);

    /// The next draw as a query to the device, where the chain is one that it knows: penalties and DRY,
    /// top-k, top-p, min-p, temperature, in this order, without bias, mask and trace. Its changes of logits
    /// are appended to `changes`. The token that the device draws is the one that draw() would choose.
    std::optional<kernels::SampleQuery> query(std::span<const TokenId> tokens, size_t prompt_tokens,
                                              size_t vocabulary, std::vector<LogitChange>& changes);
    /// What the device has answered. Throws Error where no token can be drawn.
    Sample accept(const kernels::SampleResult& result, std::span<const kernels::TopToken> top,
                  size_t vocabulary) const;

    /// Chooses the next token. `logits` is [vocab], and is not changed. `tokens` are the sequence so far, the
    /// first `prompt_tokens` of them the prompt; the new token's position is tokens.size(). `mask`, where not
    /// empty, holds one bit for each token, least significant first: tokens whose bit is 0 cannot be drawn.
    /// Throws Error where no token can be drawn or logit_bias names a token that is not in the vocabulary.
    Sample draw(std::span<const float> logits, std::span<const TokenId> tokens, size_t prompt_tokens,
                std::span<const uint64_t> mask = {});

    const SamplingParams& params() const { return params_; }
    uint64_t seed() const { return seed_; }

private:
    struct Input {
        std::span<const float> logits;
        std::span<const TokenId> tokens;
        size_t prompt_tokens;
        std::span<const uint64_t> mask;
    };
    class Recorder;

    bool changes_logits(const Input& input) const;
    bool has_common_chain() const;
    void begin(const Input& input);
    kernels::Candidate run(const Input& input, float& mirostat_mu, Recorder* recorder);
    void run_stage(SamplerStage stage, const Input& input);
    bool runs(SamplerStage stage) const;
    void report_logprobs(const Input& input, Sample& sample);
    void report_trace(const Input& input, float mirostat_mu, Sample& sample);

    SamplingParams params_;
    uint64_t seed_;
    uint32_t sample_index_;
    float mirostat_mu_; ///< the largest surprise that is let through, bits

    kernels::CandidateSet set_;
    Penalties penalties_;
    kernels::TypicalStage typical_;
    std::vector<LogitChange> bias_;
};

} // namespace orrery
