// The common chain of a sampler, from logits to a token: what SampleOp promises, for one query.
#pragma once

#include "kernels/operations.h"
#include "kernels/sampling/candidates.h"

#include <span>

namespace orrery::kernels {

/// Answers a query on its row of logits, [vocab]. `changes` are the query's own. `top` takes the likeliest
/// tokens, as many as query.logprobs, and {-1, 0} in what is left of it. `set` is scratch memory: where it
/// has room for the vocabulary (CandidateSet::reserve), the call takes no memory and does not throw.
SampleResult draw_sample(const SampleQuery& query, std::span<const float> logits,
                         std::span<const LogitChange> changes, CandidateSet& set, std::span<TopToken> top);

} // namespace orrery::kernels
