#include "engine/sample/penalties.h"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

/// The last `range` tokens; −1: all.
std::span<const TokenId> tail(std::span<const TokenId> tokens, int range) {
    return range < 0 ? tokens : tokens.last(std::min(tokens.size(), size_t(range)));
}

/// How many tokens stand after the last complete breaker.
size_t tokens_after_breaker(std::span<const TokenId> tokens,
                            const std::vector<std::vector<TokenId>>& breakers) {
    size_t after = tokens.size();
    for (const auto& breaker : breakers) {
        if (breaker.empty())
            continue;
        const auto found = std::ranges::find_end(tokens, breaker);
        if (!found.empty())
            after = std::min(after, size_t(tokens.end() - found.end()));
    }
    return after;
}

bool breaks_alone(TokenId token, const std::vector<std::vector<TokenId>>& breakers) {
    return std::ranges::any_of(
        breakers, [&](const auto& breaker) { return breaker.size() == 1 && breaker.front() == token; });
}

} // namespace

std::span<const LogitChange> Penalties::repetition(const SamplingParams& params,
                                                   std::span<const TokenId> tokens, size_t prompt_tokens,
                                                   size_t vocabulary) {
    changes_.clear();
    counts_.resize(vocabulary);
    const auto known = [&](TokenId token) { return token >= 0 && size_t(token) < vocabulary; };
    const auto unseen = [](const Count& count) { return count.answer == 0 && !count.in_range; };

    if (params.repetition_penalty != 1.0f) {
        for (const TokenId token : tail(tokens, params.penalty_range)) {
            if (!known(token))
                continue;
            if (unseen(counts_[token]))
                changes_.push_back({token});
            counts_[token].in_range = true;
        }
    }
    if (params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f) {
        for (const TokenId token : tokens.subspan(std::min(prompt_tokens, tokens.size()))) {
            if (!known(token))
                continue;
            if (unseen(counts_[token]))
                changes_.push_back({token});
            ++counts_[token].answer;
        }
    }
    for (LogitChange& change : changes_) {
        Count& count = counts_[change.token];
        if (count.in_range)
            change.factor = params.repetition_penalty;
        if (count.answer > 0)
            change.offset = double(params.frequency_penalty) * count.answer + params.presence_penalty;
        count = {};
    }
    return changes_;
}

std::span<const LogitChange> Penalties::dry(const SamplingParams& params, std::span<const TokenId> tokens) {
    changes_.clear();
    const std::span<const TokenId> text = tail(tokens, params.dry_range);
    const size_t n = text.size();
    const size_t limit = tokens_after_breaker(text, params.dry_breakers);
    if (n < 2 || limit == 0)
        return changes_;

    // matches_[k]: how many of the last tokens are found again ending k tokens earlier. This is the Z
    // function (Gusfield 1997) of the text read backwards: linear, because what is known of the window [left,
    // right) that equals the beginning is not compared again.
    const auto back = [&](size_t i) { return text[n - 1 - i]; };
    matches_.assign(n, 0);
    for (size_t k = 1, left = 0, right = 0; k < n; ++k) {
        uint32_t z = k < right ? std::min(uint32_t(right - k), matches_[k - left]) : 0;
        while (k + z < n && back(z) == back(k + z))
            ++z;
        matches_[k] = z;
        if (k + z > right) {
            left = k;
            right = k + z;
        }
    }

    const auto allowed = size_t(params.dry_allowed_length);
    for (size_t k = 1; k < n; ++k) {
        const size_t length = std::min<size_t>(matches_[k], limit);
        const TokenId next = back(k - 1);
        if (length == 0 || length < allowed || breaks_alone(next, params.dry_breakers))
            continue;
        const double penalty =
            params.dry_multiplier * std::pow(double(params.dry_base), double(length - allowed));
        changes_.push_back({next, 1.0, std::min(penalty, 1e30)});
    }
    // The longest repeat of each token.
    std::ranges::sort(changes_, [](const LogitChange& a, const LogitChange& b) {
        return a.token < b.token || (a.token == b.token && a.offset > b.offset);
    });
    const auto repeated = std::ranges::unique(changes_, {}, &LogitChange::token);
    changes_.erase(repeated.begin(), repeated.end());
    return changes_;
}

} // namespace orrery
