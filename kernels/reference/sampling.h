// The common chain of a sampler as a textbook would write it: one sorted list of all tokens, in double.
#pragma once

#include "kernels/operations.h"

#include <span>

namespace orrery::kernels::reference {

/// Answers a query on its row of logits, [vocab]. `changes` are the query's own; `top` takes the likeliest
/// tokens, as many as query.logprobs, and {-1, 0} in what is left of it.
SampleResult sample(const SampleQuery& query, std::span<const float> logits,
                    std::span<const LogitChange> changes, std::span<TopToken> top);

} // namespace orrery::kernels::reference
