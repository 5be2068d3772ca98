#include "kernels/sampling/draw.h"

#include "kernels/sampling/truncation.h"

#include <algorithm>

namespace orrery::kernels {

namespace {

Candidate run_chain(const SampleQuery& query, CandidateSet& set) {
    if (query.temperature == 0.0f)
        return set.best();
    if (query.top_k > 0)
        set.keep_top(static_cast<size_t>(query.top_k));
    if (query.top_p < 1.0f)
        keep_top_p(set, query.top_p);
    if (query.min_p > 0.0f)
        keep_min_p(set, query.min_p);
    if (query.temperature != 1.0f)
        set.apply_temperature(static_cast<double>(query.temperature));
    return set.draw(query.u);
}

} // namespace

SampleResult draw_sample(const SampleQuery& query, std::span<const float> logits,
                         std::span<const LogitChange> changes, CandidateSet& set, std::span<TopToken> top) {
    std::ranges::fill(top, TopToken());
    SampleResult result;
    set.reset(logits);
    if (!set.prepare())
        return result;
    set.apply(changes);
    result.token = run_chain(query, set).token;
    if (query.logprobs < 0)
        return result;

    // The model's own distribution: that of the unchanged logits.
    set.reset(logits);
    set.prepare();
    result.logprob = static_cast<float>(set.log_probability_of(result.token));
    const size_t wanted = std::min(static_cast<size_t>(query.logprobs), top.size());
    if (wanted == 0)
        return result;
    const std::span<const Candidate> likeliest = set.top(wanted);
    for (size_t i = 0; i < likeliest.size(); ++i)
        top[i] = {likeliest[i].token, static_cast<float>(set.log_probability(likeliest[i].logit))};
    return result;
}

} // namespace orrery::kernels
