#include "kernels/sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace orrery::kernels {

namespace {

/// What a float limit may be off by, relative to it.
constexpr double rounding = 0x1p-23;

bool reaches(double value, double limit) {
    return value >= limit * (1.0 - rounding);
}

// Stages that look at the likeliest first ask for a few, and for more only where these do not suffice.
constexpr size_t first_look = 64;
constexpr size_t growth = 8;

} // namespace

void keep_top_n_sigma(CandidateSet& set, float n) {
    set.drop_below(set.max_logit() - double(n) * set.logit_deviation() * (1.0 + rounding));
}

void keep_top_p(CandidateSet& set, float p) {
    for (size_t look = first_look;; look *= growth) {
        const std::span<const Candidate> top = set.top(look);
        double reached = 0.0;
        for (size_t i = 0; i < top.size(); ++i) {
            reached += set.probability(top[i].logit);
            if (reaches(reached, p)) {
                set.keep_top(i + 1);
                return;
            }
        }
        if (top.size() < look)
            return;
    }
}

void keep_min_p(CandidateSet& set, float p) {
    set.drop_below(set.max_logit() + set.temperature() * std::log(double(p) * (1.0 - rounding)));
}

void exclude_top_choices(CandidateSet& set, float threshold) {
    for (size_t look = first_look;; look *= growth) {
        const std::span<const Candidate> top = set.top(look);
        const auto end = std::ranges::find_if_not(top, [&](const Candidate& candidate) {
            return reaches(set.probability(candidate.logit), threshold);
        });
        if (end == top.end() && top.size() == look)
            continue;
        if (end - top.begin() >= 2)
            set.drop_top(size_t(end - top.begin()) - 1);
        return;
    }
}

void TypicalStage::keep(CandidateSet& set, float p) {
    const double entropy = set.entropy();
    for (size_t look = first_look;; look *= growth) {
        const std::span<const Candidate> top = set.top(look);
        order_.clear();
        for (const Candidate& candidate : top)
            order_.emplace_back(std::abs(-set.log_probability(candidate.logit) - entropy),
                                uint32_t(order_.size()));
        // Those that have not been looked at are at least as far from the entropy as the last one, provided
        // that it lies on their side.
        const bool all = top.size() < look;
        const bool past_entropy = -set.log_probability(top.back().logit) >= entropy;
        const double horizon = order_.back().first;
        std::ranges::sort(order_);
        places_.clear();
        double reached = 0.0;
        for (const auto& [distance, place] : order_) {
            if (!all && (!past_entropy || distance >= horizon))
                break;
            places_.push_back(place);
            reached += set.probability(top[place].logit);
            if (reaches(reached, p))
                break;
        }
        if (!all && !reaches(reached, p))
            continue;
        if (!all && places_.empty())
            continue;
        std::ranges::sort(places_);
        set.keep_places(places_);
        return;
    }
}

Candidate draw_mirostat(CandidateSet& set, float tau, float eta, float& mu, double u) {
    const double max = set.max_logit();
    const double temperature = set.temperature();
    const double log_normaliser = std::log(set.normaliser());
    // −log p ≤ μ ln 2 with log p = (logit − max) / temperature − log Z
    const double threshold = max + temperature * (log_normaliser - double(mu) * std::numbers::ln2);
    if (threshold > max)
        set.keep_top(1);
    else
        set.drop_below(threshold);
    const Candidate drawn = set.draw(u);
    const double surprise = (log_normaliser - (double(drawn.logit) - max) / temperature) / std::numbers::ln2;
    mu -= float(double(eta) * (surprise - tau));
    return drawn;
}

} // namespace orrery::kernels
