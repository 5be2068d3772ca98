// Stages that lower the logits of what the text has said before.
#pragma once

#include "engine/request.h"
#include "kernels/operations.h"

#include <span>
#include <vector>

namespace orrery {

using kernels::LogitChange;

/// Works out which logits the text so far changes. Keeps its scratch memory between two tokens.
class Penalties {
public:
    /// Repetition, over the last `penalty_range` tokens of prompt and answer: logits above 0 are divided by
    /// the penalty, others multiplied (Keskar et al. 2019). After it frequency (for each time) and presence
    /// (once), over the answer only: subtracted. At most one change for a token; valid until the next call.
    std::span<const LogitChange> repetition(const SamplingParams& params, std::span<const TokenId> tokens,
                                            size_t prompt_tokens, size_t vocabulary);

    /// DRY ("Don't Repeat Yourself", P. E. Weidmann 2024). A token that would continue a repeat, that is, one
    /// that followed an earlier occurrence of the text's last n tokens, loses multiplier · base^(n −
    /// allowed); the longest such n counts, repeats shorter than `dry_allowed_length` are free. No repeat
    /// reaches back over a breaker, and a token that is a breaker by itself is never penalised.
    std::span<const LogitChange> dry(const SamplingParams& params, std::span<const TokenId> tokens);

private:
    struct Count {
        uint32_t answer = 0;   ///< times in the answer
        bool in_range = false; ///< within reach of the repetition penalty
    };

    std::vector<Count> counts_; ///< [vocab], all zero between two calls
    std::vector<uint32_t> matches_;
    std::vector<LogitChange> changes_;
};

} // namespace orrery
