#include "kernels/reference/sampling.h"

#include "kernels/reference/checks.h"
#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace orrery::kernels::reference {

namespace {

/// What a float limit may be off by, relative to it: six tokens of probability 0.1 reach top_p = 0.6.
constexpr double rounding = 0x1p-23;

struct Token {
    int32_t id;
    double logit;
    double probability;
};

/// Softmax of logit / temperature over the tokens that are left; the first is the likeliest.
void softmax(std::vector<Token>& tokens, double temperature) {
    double sum = 0.0;
    for (Token& token : tokens) {
        token.probability = std::exp((token.logit - tokens.front().logit) / temperature);
        sum += token.probability;
    }
    for (Token& token : tokens)
        token.probability /= sum;
}

/// All tokens that can be drawn, likeliest first. Those of +∞, where there are some, alone and with logit 0.
std::vector<Token> candidates(std::span<const float> logits) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const bool any_infinite = std::ranges::find(logits, infinity) != logits.end();
    std::vector<Token> tokens;
    for (size_t i = 0; i < logits.size(); ++i) {
        if (any_infinite && logits[i] == infinity)
            tokens.push_back({static_cast<int32_t>(i), 0.0, 0.0});
        else if (!any_infinite && logits[i] > -infinity) // false for NaN
            tokens.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i]), 0.0});
    }
    return tokens;
}

void sort(std::vector<Token>& tokens) {
    std::ranges::stable_sort(tokens, std::greater{}, &Token::logit);
}

/// The smallest number of the likeliest whose probability reaches p.
size_t count_of_top_p(const std::vector<Token>& tokens, double p) {
    double reached = 0.0;
    for (size_t i = 0; i < tokens.size(); ++i) {
        reached += tokens[i].probability;
        if (reached >= p * (1.0 - rounding))
            return i + 1;
    }
    return tokens.size();
}

} // namespace

SampleResult sample(const SampleQuery& query, std::span<const float> logits,
                    std::span<const LogitChange> changes, std::span<TopToken> top) {
    std::ranges::fill(top, TopToken());
    SampleResult result;
    std::vector<Token> tokens = candidates(logits);
    if (tokens.empty())
        return result;
    std::vector<Token> unchanged = tokens;

    if (!std::isinf(logits[static_cast<size_t>(tokens.front().id)]))
        for (const LogitChange& change : changes)
            for (Token& token : tokens)
                if (token.id == change.token) {
                    const double scaled =
                        token.logit > 0 ? token.logit / change.factor : token.logit * change.factor;
                    constexpr double limit = std::numeric_limits<float>::max();
                    // Rounded like a logit, so that tokens that a change makes equal are equal.
                    token.logit = static_cast<float>(std::clamp(scaled - change.offset, -limit, limit));
                }
    sort(tokens);
    if (query.temperature == 0.0f) {
        result.token = tokens.front().id;
    } else {
        // Where top-k or top-p leave a part of the vocabulary, the candidates are gone through from the
        // likeliest on, otherwise by id.
        bool is_part = false;
        const auto keep = [&](size_t count) {
            is_part = is_part || count < logits.size();
            tokens.resize(std::min(count, tokens.size()));
        };
        if (query.top_k > 0)
            keep(static_cast<size_t>(query.top_k));
        if (query.top_p < 1.0f) {
            softmax(tokens, 1.0);
            keep(count_of_top_p(tokens, static_cast<double>(query.top_p)));
        }
        if (query.min_p > 0.0f) {
            softmax(tokens, 1.0);
            const double limit = tokens.front().probability * static_cast<double>(query.min_p);
            std::erase_if(tokens,
                          [&](const Token& token) { return token.probability < limit * (1.0 - rounding); });
        }
        softmax(tokens, static_cast<double>(query.temperature));
        if (!is_part)
            std::ranges::sort(tokens, {}, &Token::id);
        double target = query.u;
        for (const Token& token : tokens) {
            if (token.probability > 0.0)
                result.token = token.id;
            if (target < token.probability)
                break;
            target -= token.probability;
        }
    }

    if (query.logprobs < 0)
        return result;
    sort(unchanged);
    softmax(unchanged, 1.0);
    const auto logprob = [](const Token& token) { return static_cast<float>(std::log(token.probability)); };
    result.logprob = logprob(*std::ranges::find(unchanged, result.token, &Token::id));
    const size_t count = std::min({static_cast<size_t>(query.logprobs), top.size(), unchanged.size()});
    for (size_t i = 0; i < count; ++i)
        top[i] = {unchanged[i].id, logprob(unchanged[i])};
    return result;
}

} // namespace orrery::kernels::reference

namespace orrery::kernels {

using reference::number;
using reference::require;

void ReferenceBackend::sample(const SampleOp& op) {
    const reference::Rows logits = rows_of(op.logits, op.logits.rows, op.logits.columns, "sample's logits");
    require(op.max_logprobs >= 0, "sample cannot report " + number(op.max_logprobs) + " log-probabilities.");
    const auto max_logprobs = static_cast<size_t>(op.max_logprobs);
    const auto changes_end = static_cast<int64_t>(op.changes.size());
    for (const SampleQuery& query : op.queries) {
        require(query.row >= 0 && query.row < op.logits.rows, "A query asks for row " + number(query.row) +
                                                                  " of " + number(op.logits.rows) +
                                                                  " rows of logits.");
        require(query.first_change >= 0 && query.changes >= 0 &&
                    query.changes <= changes_end - query.first_change,
                "A query names " + number(query.changes) + " changes from " + number(query.first_change) +
                    " on: there are " + number(changes_end) + ".");
        require(query.logprobs <= op.max_logprobs, "A query asks for " + number(query.logprobs) +
                                                       " log-probabilities: there is room for " +
                                                       number(op.max_logprobs) + ".");
    }
    std::byte* results = bytes_of(op.results, op.queries.size() * sizeof(SampleResult), "sample's results");
    std::byte* top = max_logprobs > 0 ? bytes_of(op.top, op.queries.size() * max_logprobs * sizeof(TopToken),
                                                 "sample's top")
                                      : nullptr;
    own_memory_of(op.results, "sample's results");
    enqueue(&KernelProfile::sample_ns, [=, queries = std::vector(op.queries.begin(), op.queries.end()),
                                        changes = std::vector(op.changes.begin(), op.changes.end())] {
        std::vector<TopToken> row_top(max_logprobs);
        for (size_t i = 0; i < queries.size(); ++i) {
            const SampleQuery& query = queries[i];
            const std::span own(changes.data() + query.first_change, static_cast<size_t>(query.changes));
            const SampleResult result =
                reference::sample(query, logits.read(static_cast<size_t>(query.row)), own, row_top);
            std::memcpy(results + i * sizeof result, &result, sizeof result);
            if (top)
                std::memcpy(top + i * max_logprobs * sizeof(TopToken), row_top.data(),
                            max_logprobs * sizeof(TopToken));
        }
    });
}

} // namespace orrery::kernels
