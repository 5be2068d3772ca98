// Penalties against their definitions, written down plainly.
#include "engine/sample/penalties.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <map>

using namespace orrery;

namespace {

using Tokens = std::vector<TokenId>;

std::map<TokenId, std::pair<double, double>> as_map(std::span<const LogitChange> changes) {
    std::map<TokenId, std::pair<double, double>> map;
    for (const LogitChange& change : changes)
        if (!map.emplace(change.token, std::pair(change.factor, change.offset)).second)
            throw std::runtime_error("a token is changed twice");
    return map;
}

bool breaks(const Tokens& text, size_t end, const std::vector<Tokens>& breakers) {
    return std::ranges::any_of(breakers, [&](const Tokens& breaker) {
        return !breaker.empty() && end >= breaker.size() &&
               std::equal(breaker.begin(), breaker.end(), text.begin() + long(end - breaker.size()));
    });
}

} // namespace

class tst_penalties : public QObject {
    Q_OBJECT

private slots:
    /// Tokens outside of the vocabulary are passed by.
    void repetition_counts_what_is_there() {
        test::Random random(test::test_seed());
        Penalties penalties;
        constexpr int vocabulary = 12;
        for (int round = 0; round < 3000; ++round) {
            Tokens tokens;
            for (int n = random.below(30); n > 0; --n)
                tokens.push_back(random.chance(0.1)
                                     ? TokenId(random.below(5) - 3 + random.below(2) * vocabulary)
                                     : TokenId(random.below(vocabulary)));
            const auto prompt = size_t(random.below(int(tokens.size()) + 3));
            SamplingParams params;
            params.repetition_penalty = random.chance(0.5) ? 1.3f : 1.0f;
            params.frequency_penalty = random.chance(0.5) ? 0.25f : 0.0f;
            params.presence_penalty = random.chance(0.5) ? 0.5f : 0.0f;
            params.penalty_range = random.between(-1, 32);
            std::map<TokenId, std::pair<double, double>> expected;
            const size_t range = params.penalty_range < 0 ? tokens.size() : size_t(params.penalty_range);
            for (size_t i = 0; i < tokens.size(); ++i) {
                if (tokens[i] < 0 || tokens[i] >= vocabulary)
                    continue;
                const bool repeated = params.repetition_penalty != 1.0f && i + range >= tokens.size();
                const bool answered =
                    i >= prompt && (params.frequency_penalty != 0 || params.presence_penalty != 0);
                if (!repeated && !answered)
                    continue;
                auto& [factor, offset] = expected.try_emplace(tokens[i], 1.0, 0.0).first->second;
                if (repeated)
                    factor = params.repetition_penalty;
                if (answered)
                    offset +=
                        double(params.frequency_penalty) + (offset == 0 ? params.presence_penalty : 0.0f);
            }
            const auto found = as_map(penalties.repetition(params, tokens, prompt, vocabulary));
            QCOMPARE(found.size(), expected.size());
            for (const auto& [token, change] : expected) {
                QVERIFY(found.contains(token));
                QCOMPARE(found.at(token).first, change.first);
                QVERIFY(std::abs(found.at(token).second - change.second) < 1e-9);
            }
        }
    }

    void dry_finds_the_longest_repeat() {
        test::Random random(test::test_seed());
        Penalties penalties;
        int penalised = 0;
        for (int round = 0; round < 4000; ++round) {
            Tokens tokens;
            const int letters = 1 + random.below(3);
            for (int n = random.below(24); n > 0; --n)
                tokens.push_back(TokenId(random.below(letters)));
            SamplingParams params;
            params.dry_multiplier = 0.8f;
            params.dry_allowed_length = random.between(0, 4);
            params.dry_range = random.chance(0.5) ? -1 : random.below(30);
            for (int n = random.below(3); n > 0; --n) {
                Tokens& breaker = params.dry_breakers.emplace_back();
                for (int k = random.below(3); k >= 0; --k)
                    breaker.push_back(TokenId(random.below(letters + 1)));
            }
            const size_t range =
                params.dry_range < 0 ? tokens.size() : std::min(tokens.size(), size_t(params.dry_range));
            const Tokens text(tokens.end() - long(range), tokens.end());
            const size_t n = text.size();
            // How far back a repeat may reach: not over the end of a breaker.
            size_t limit = n;
            for (size_t end = 0; end <= n; ++end)
                if (breaks(text, end, params.dry_breakers))
                    limit = n - end;
            std::map<TokenId, double> expected;
            for (size_t place = 1; place < n; ++place) { // the token that followed an earlier occurrence
                size_t length = 0;
                while (length < place && length < limit && text[place - 1 - length] == text[n - 1 - length])
                    ++length;
                const bool alone = std::ranges::any_of(params.dry_breakers, [&](const Tokens& breaker) {
                    return breaker == Tokens{text[place]};
                });
                if (length == 0 || length < size_t(params.dry_allowed_length) || alone)
                    continue;
                const double penalty =
                    double(params.dry_multiplier) *
                    std::pow(double(params.dry_base), double(length) - params.dry_allowed_length);
                double& worst = expected[text[place]];
                worst = std::max(worst, penalty);
            }
            const auto found = as_map(penalties.dry(params, tokens));
            QCOMPARE(found.size(), expected.size());
            for (const auto& [token, penalty] : expected) {
                QVERIFY(found.contains(token));
                QVERIFY(std::abs(found.at(token).second - penalty) < 1e-9 * penalty);
            }
            penalised += !expected.empty();
        }
        QVERIFY(penalised > 500);
    }
};

QTEST_GUILESS_MAIN(tst_penalties)
#include "tst_penalties.moc"
