// The sampler as a whole: what it draws, what it remembers, what it refuses. Its stages are held against an
// independent implementation in tst_sampler_stages.
#include "engine/sample/sampler.h"
#include "kernels/error.h"
#include "kernels/sampling/draw.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>
#include <random>

// Every allocation of this program is counted; see a_draw_allocates_nothing.
static size_t allocations = 0; // NOLINT

void* operator new(size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

using namespace orrery;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Every stage switched off.
SamplingParams plain() {
    SamplingParams params;
    params.temperature = 1.0f;
    params.top_k = 0;
    params.top_p = 1.0f;
    params.min_p = 0.0f;
    return params;
}

std::vector<float> random_logits(size_t n, uint32_t seed, float spread = 3.0f) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logits(n);
    for (float& logit : logits)
        logit = normal(engine);
    return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1.0) {
    const double max = *std::ranges::max_element(logits);
    std::vector<double> p;
    for (const float logit : logits)
        p.push_back(std::exp((logit - max) / temperature));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p)
        value /= sum;
    return p;
}

/// Tokens drawn at positions 0 … n − 1. The positions' random numbers are independent of each other.
std::vector<TokenId> draw_many(const SamplingParams& params, const std::vector<float>& logits, size_t n,
                               uint64_t seed = 1, uint32_t sample = 0, std::span<const uint64_t> mask = {}) {
    Sampler sampler(params, seed, sample);
    const std::vector<TokenId> tokens(n, TokenId(0));
    std::vector<TokenId> drawn;
    for (size_t i = 0; i < n; ++i)
        drawn.push_back(sampler.draw(logits, std::span(tokens).first(i), i, mask).token);
    return drawn;
}

} // namespace

class TestSampler : public QObject {
    Q_OBJECT

private slots:
    void draws_follow_the_distribution_data();
    void draws_follow_the_distribution();
    void same_seed_same_tokens();
    void a_draw_depends_on_its_position_alone();
    void greedy_takes_the_likeliest_whatever_the_stages();
    void greedy_obeys_bias_mask_and_penalties();
    void limits_of_top_k_and_top_p();
    void infinities_and_nan();
    void nothing_to_draw_is_an_error();
    void bias_past_the_vocabulary_is_an_error();
    void logprobs_are_the_models_own();
    void trace_shows_the_drawn_token();
    void tracing_changes_nothing();
    void retune_keeps_mirostat();
    void mirostat_reaches_its_target();
    void parameters_are_checked();
    void a_draw_allocates_nothing();
    void the_device_draws_the_same_token();
    void chains_that_the_device_does_not_know();
};

void TestSampler::draws_follow_the_distribution_data() {
    QTest::addColumn<int>("vocabulary");
    QTest::addColumn<int>("top_k");
    QTest::addColumn<double>("temperature");
    // Below and above the block of 64 logits, whole and ragged; as a dense set and as a list.
    for (const int vocabulary : {1, 2, 20, 64, 65, 200})
        for (const int top_k : {0, 10})
            for (const double temperature : {0.5, 1.0, 2.0})
                QTest::addRow("%d tokens, top_k %d, temperature %g", vocabulary, top_k, temperature)
                    << vocabulary << top_k << temperature;
}

void TestSampler::draws_follow_the_distribution() {
    QFETCH(int, vocabulary);
    QFETCH(int, top_k);
    QFETCH(double, temperature);
    const std::vector<float> logits = random_logits(size_t(vocabulary), 11, 1.5f);
    SamplingParams params = plain();
    params.top_k = top_k;
    params.temperature = float(temperature);

    std::vector<float> kept = logits;
    if (top_k > 0 && top_k < vocabulary) {
        std::vector<float> sorted = logits;
        std::ranges::sort(sorted, std::greater{});
        for (float& logit : kept)
            if (logit < sorted[size_t(top_k) - 1])
                logit = -infinity;
    }
    const std::vector<double> expected = softmax(kept, params.temperature);

    constexpr size_t n = 5'000;
    std::vector<double> count(logits.size(), 0.0);
    for (const TokenId token : draw_many(params, logits, n, 2026))
        ++count[size_t(token)];

    // Pearson's chi-square, bins that expect fewer than 5 joined. With k degrees of freedom it is nearly
    // normal with mean k and variance 2k; 4.5 deviations and a bit for the skew of small k is once in 10^5.
    double chi_square = 0.0;
    double rest_expected = 0.0;
    double rest_count = 0.0;
    int bins = 0;
    const auto add = [&](double seen, double wanted) {
        chi_square += (seen - wanted) * (seen - wanted) / wanted;
        ++bins;
    };
    for (size_t i = 0; i < logits.size(); ++i) {
        if (expected[i] == 0.0)
            QCOMPARE(count[i], 0.0);
        if (expected[i] * n >= 5) {
            add(count[i], expected[i] * n);
        } else {
            rest_expected += expected[i] * n;
            rest_count += count[i];
        }
    }
    if (rest_expected >= 5)
        add(rest_count, rest_expected);
    const double degrees = bins - 1;
    const double limit = degrees + 4.5 * std::sqrt(2 * degrees) + 12;
    QVERIFY2(chi_square < limit, qPrintable(QString("chi-square %1, limit %2").arg(chi_square).arg(limit)));
}

void TestSampler::same_seed_same_tokens() {
    const std::vector<float> logits = random_logits(500, 3);
    SamplingParams params;
    params.min_p = 0.0f;
    params.temperature = 1.5f;
    const auto first = draw_many(params, logits, 100, 42);
    QCOMPARE(draw_many(params, logits, 100, 42), first);
    QVERIFY(draw_many(params, logits, 100, 43) != first);
    QVERIFY(draw_many(params, logits, 100, 42, 1) != first); // another of the request's samples
    params.seed = 42;                                        // the parameters' own seed goes first
    QCOMPARE(draw_many(params, logits, 100, 7), first);
}

void TestSampler::a_draw_depends_on_its_position_alone() {
    const std::vector<float> logits = random_logits(500, 4);
    SamplingParams params;
    params.xtc_probability = 0.5f;
    params.frequency_penalty = 0.25f;
    params.dry_multiplier = 0.5f;
    std::vector<TokenId> tokens(60);
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = TokenId(i * i % 7);

    Sampler forward(params, 9, 0);
    std::vector<TokenId> expected;
    for (size_t i = 10; i < tokens.size(); ++i)
        expected.push_back(forward.draw(logits, std::span(tokens).first(i), 10).token);
    // Backwards, with another request's draws in between.
    Sampler backward(params, 9, 0);
    Sampler other(params, 10, 0);
    for (size_t i = tokens.size(); i-- > 10;) {
        other.draw(logits, std::span(tokens).first(i), 10);
        QCOMPARE(backward.draw(logits, std::span(tokens).first(i), 10).token, expected[i - 10]);
    }
}

void TestSampler::greedy_takes_the_likeliest_whatever_the_stages() {
    for (uint32_t seed = 0; seed < 50; ++seed) {
        std::vector<float> logits = random_logits(100 + seed * 7, seed);
        const auto best = std::ranges::max_element(logits) - logits.begin();
        // A tie goes to the smaller id.
        if (seed % 2 == 1)
            logits.push_back(logits[size_t(best)]);
        SamplingParams params;
        params.temperature = 0.0f;
        params.top_n_sigma = 0.1f;
        params.typical_p = 0.1f;
        params.xtc_probability = 1.0f;
        params.xtc_threshold = 0.0f;
        params.mirostat = seed % 3 == 0 ? 2 : 0;
        if (seed % 5 == 0)
            params.order = {SamplerStage::xtc};
        Sampler sampler(params, seed, 0);
        QCOMPARE(sampler.draw(logits, {}, 0).token, TokenId(best));
    }
}

void TestSampler::greedy_obeys_bias_mask_and_penalties() {
    const std::vector<float> logits = {1.0f, 5.0f, 4.0f, 3.0f};
    SamplingParams params;
    params.temperature = 0.0f;
    const std::vector<TokenId> answer = {1, 1};
    params.frequency_penalty = 0.75f;
    QCOMPARE(Sampler(params, 0, 0).draw(logits, answer, 0).token, 2); // 5 − 2·0.75 < 4
    QCOMPARE(Sampler(params, 0, 0).draw(logits, answer, 2).token, 1); // it was the prompt that said so
    params.frequency_penalty = 0.0f;
    params.repetition_penalty = 2.0f;
    QCOMPARE(Sampler(params, 0, 0).draw(logits, answer, 2).token, 2); // this one counts the prompt too
    params.penalty_range = 0;
    QCOMPARE(Sampler(params, 0, 0).draw(logits, answer, 2).token, 1);
    params.logit_bias = {{0, 100.0f}};
    QCOMPARE(Sampler(params, 0, 0).draw(logits, {}, 0).token, 0);
    const std::vector<uint64_t> mask = {0b1000};
    QCOMPARE(Sampler(params, 0, 0).draw(logits, {}, 0, mask).token, 3);
}

void TestSampler::limits_of_top_k_and_top_p() {
    const std::vector<float> logits = random_logits(300, 5, 0.5f);
    const auto best = TokenId(std::ranges::max_element(logits) - logits.begin());
    const auto distinct = [&](const SamplingParams& params) {
        auto drawn = draw_many(params, logits, 3000);
        std::ranges::sort(drawn);
        drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
        return drawn;
    };
    SamplingParams params = plain();
    QVERIFY(distinct(params).size() > 250);
    params.top_k = 1;
    QCOMPARE(distinct(params), std::vector<TokenId>{best});
    params = plain();
    params.top_p = 0.0f;
    QCOMPARE(distinct(params), std::vector<TokenId>{best});
    params = plain();
    params.min_p = 1.0f;
    QCOMPARE(distinct(params), std::vector<TokenId>{best});
    params = plain();
    params.typical_p = 0.0f;
    QCOMPARE(distinct(params).size(), size_t(1));
    // A mask that leaves one token leaves no choice, with any parameters.
    std::vector<uint64_t> mask(5, 0);
    mask[4] = uint64_t(1) << 3;
    for (const TokenId token : draw_many(SamplingParams(), logits, 50, 1, 0, mask))
        QCOMPARE(token, 4 * 64 + 3);
}

void TestSampler::infinities_and_nan() {
    // Random places of −∞ and NaN are never drawn; a few places of +∞ are drawn equally often.
    std::mt19937 engine(6);
    for (const size_t vocabulary : {size_t(5), size_t(70), size_t(400)}) {
        std::vector<float> logits = random_logits(vocabulary, 8);
        for (size_t i = 0; i < vocabulary; i += 3)
            logits[i] = i % 2 == 0 ? not_a_number : -infinity;
        for (const SamplingParams& params : {plain(), SamplingParams()})
            for (const TokenId token : draw_many(params, logits, 500, engine()))
                QVERIFY(token % 3 != 0);
        logits[1] = logits[4] = infinity;
        for (const SamplingParams& params : {plain(), SamplingParams()}) {
            const auto drawn = draw_many(params, logits, 1000, engine());
            const auto ones = std::ranges::count(drawn, 1);
            QCOMPARE(ones + std::ranges::count(drawn, 4), 1000);
            // Binomial: the standard deviation is sqrt(1000)/2 = 16.
            QVERIFY2(std::abs(ones - 500) < 80, qPrintable(QString::number(ones)));
        }
    }
}

void TestSampler::nothing_to_draw_is_an_error() {
    const auto message = [](const std::vector<float>& logits, const SamplingParams& params,
                            std::span<const uint64_t> mask) -> QString {
        try {
            Sampler(params, 0, 0).draw(logits, {}, 0, mask);
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    };
    SamplingParams greedy;
    greedy.temperature = 0.0f;
    const std::vector<uint64_t> none = {0, 0};
    for (const SamplingParams& params : {greedy, SamplingParams()}) {
        QVERIFY(message({-infinity, not_a_number, -infinity}, params, {}).contains("all 3 logits"));
        QVERIFY(message({}, params, {}).contains("all 0 logits"));
        QVERIFY(message(random_logits(100, 1), params, none).contains("mask"));
        QVERIFY(message(random_logits(64, 1), params, {}).isEmpty());
    }
    SamplingParams banned;
    banned.logit_bias = {{0, -infinity}, {1, -infinity}};
    QVERIFY(!message({1.0f, 2.0f}, banned, {}).isEmpty());
}

void TestSampler::bias_past_the_vocabulary_is_an_error() {
    SamplingParams params;
    params.logit_bias = {{100, 1.0f}};
    QVERIFY_EXCEPTION_THROWN(Sampler(params, 0, 0).draw(random_logits(100, 1), {}, 0), Error);
    Sampler(params, 0, 0).draw(random_logits(101, 1), {}, 0);
}

void TestSampler::logprobs_are_the_models_own() {
    for (const size_t vocabulary : {size_t(3), size_t(64), size_t(1000)}) {
        const std::vector<float> logits = random_logits(vocabulary, 21, 5.0f);
        const std::vector<double> p = softmax(logits);
        SamplingParams params;
        params.temperature = 0.3f;
        params.logit_bias = {{1, 50.0f}};
        params.logprobs = 5;
        const Sample sample = Sampler(params, 5, 0).draw(logits, {}, 0);
        QCOMPARE(sample.token, 1); // the bias decides; the log-probability does not know of it
        QVERIFY(std::abs(sample.logprob - std::log(p[1])) < 1e-5);
        QCOMPARE(sample.top_logprobs.size(), std::min<size_t>(5, vocabulary));
        std::vector<float> sorted = logits;
        std::ranges::sort(sorted, std::greater{});
        for (size_t i = 0; i < sample.top_logprobs.size(); ++i) {
            const auto [token, logprob] = sample.top_logprobs[i];
            QCOMPARE(logits[size_t(token)], sorted[i]);
            QVERIFY(std::abs(logprob - std::log(p[size_t(token)])) < 1e-5);
        }
        params.logprobs = 0;
        const Sample alone = Sampler(params, 5, 0).draw(logits, {}, 0);
        QVERIFY(alone.top_logprobs.empty());
        QCOMPARE(alone.logprob, sample.logprob);
    }
}

void TestSampler::trace_shows_the_drawn_token() {
    // The drawn token is among the traced ones even where a bias lifts it from far below the first hundred.
    std::vector<float> logits = random_logits(2000, 31);
    const auto worst = TokenId(std::ranges::min_element(logits) - logits.begin());
    SamplingParams params;
    params.logit_bias = {{worst, 100.0f}};
    params.trace = true;
    const Sample sample = Sampler(params, 5, 0).draw(logits, {}, 0);
    QCOMPARE(sample.token, worst);
    QCOMPARE(sample.trace.front().stage, std::string("logits"));
    QCOMPARE(sample.trace.front().left, size_t(2000));
    QCOMPARE(sample.trace.front().candidates.size(), size_t(101)); // the bias adds one to the hundred
    QCOMPARE(sample.trace.back().stage, std::string("temperature"));
    QCOMPARE(sample.trace.back().candidates.front(), std::make_pair(worst, 1.0f));
    for (const StageTrace& stage : sample.trace)
        QVERIFY(
            std::ranges::is_sorted(stage.candidates, std::greater{}, [](const auto& c) { return c.second; }));
}

void TestSampler::tracing_changes_nothing() {
    const std::vector<float> logits = random_logits(700, 33);
    for (const int mirostat : {0, 2}) {
        SamplingParams params;
        params.mirostat = mirostat;
        params.xtc_probability = 0.5f;
        params.repetition_penalty = 1.3f;
        const auto expected = draw_many(params, logits, 100, 3);
        params.trace = true;
        params.logprobs = 3;
        QCOMPARE(draw_many(params, logits, 100, 3), expected);
    }
}

void TestSampler::retune_keeps_mirostat() {
    // Twenty draws with a new target half-way differ from a sampler that begins with the new one there, and
    // equal one that has been through the same.
    const std::vector<float> logits = random_logits(1000, 41, 2.0f);
    SamplingParams params;
    params.mirostat = 2;
    params.mirostat_eta = 0.5f;
    params.mirostat_tau = 1.0f;
    SamplingParams other = params;
    other.mirostat_tau = 6.0f;
    const std::vector<TokenId> tokens(40, 0);
    const auto left_after = [&](Sampler& sampler, size_t position) {
        SamplingParams traced = sampler.params();
        traced.trace = true;
        sampler.retune(traced);
        return sampler.draw(logits, std::span(tokens).first(position), 0).trace.back().left;
    };
    const auto run = [&](Sampler& sampler, size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i)
            sampler.draw(logits, std::span(tokens).first(i), 0);
    };
    Sampler kept(params, 1, 0);
    run(kept, 0, 20);
    Sampler unchanged = kept;
    kept.retune(other);
    Sampler fresh(other, 1, 0);
    const size_t with_state = left_after(kept, 20);
    QCOMPARE(with_state, left_after(unchanged, 20)); // the new target acts only through the next error
    QVERIFY(with_state != left_after(fresh, 20));
}

void TestSampler::mirostat_reaches_its_target() {
    // What it is for: the mean surprise of what is drawn comes to the target.
    std::vector<float> logits(2000);
    for (size_t i = 0; i < logits.size(); ++i)
        logits[i] =
            -1.1f * std::log(float(i + 1)); // Zipf: even the likeliest token has a surprise of 2.7 bits
    const std::vector<double> p = softmax(logits);
    for (const float tau : {3.0f, 4.0f, 6.0f}) {
        SamplingParams params = plain();
        params.mirostat = 2;
        params.mirostat_tau = tau;
        double surprise = 0.0;
        const auto drawn = draw_many(params, logits, 2000, 8);
        for (size_t i = 500; i < drawn.size(); ++i)
            surprise -= std::log2(p[size_t(drawn[i])]) / 1500;
        QVERIFY2(std::abs(surprise - tau) < 0.15, qPrintable(QString::number(surprise)));
    }
}

void TestSampler::parameters_are_checked() {
    SamplingParams params;
    params.top_p = 1.5f;
    QVERIFY_EXCEPTION_THROWN(Sampler(params, 0, 0), Error);
    Sampler sampler(SamplingParams(), 0, 0);
    QVERIFY_EXCEPTION_THROWN(sampler.retune(params), Error);
    QCOMPARE(sampler.params().top_p, 0.95f); // a refused value changes nothing
    params = SamplingParams();
    params.order = {SamplerStage::top_k, SamplerStage::top_p, SamplerStage::top_k};
    QVERIFY_EXCEPTION_THROWN(sampler.retune(params), Error);
}

void TestSampler::a_draw_allocates_nothing() {
    const std::vector<float> logits = random_logits(5000, 51);
    const std::vector<TokenId> tokens = draw_many(SamplingParams(), logits, 300);
    const std::vector<uint64_t> mask(logits.size() / 64 + 1, 0xFFFF'00FF'F0F0'1234);
    SamplingParams all;
    all.typical_p = 0.9f;
    all.top_n_sigma = 3.0f;
    all.xtc_probability = 0.5f;
    all.dry_multiplier = 0.8f;
    all.repetition_penalty = 1.1f;
    all.frequency_penalty = 0.1f;
    all.logit_bias = {{3, 1.0f}};
    SamplingParams greedy;
    greedy.temperature = 0.0f;
    SamplingParams mirostat = all;
    mirostat.mirostat = 2;
    SamplingParams dense = plain();
    dense.typical_p = 0.9f;
    for (const SamplingParams& params : {SamplingParams(), all, greedy, mirostat, dense, plain()}) {
        Sampler sampler(params, 1, 0);
        // The longest text first, so that all scratch memory has its size.
        sampler.draw(logits, tokens, 10, mask);
        const size_t before = allocations;
        for (size_t i = 200; i < tokens.size(); ++i)
            sampler.draw(logits, std::span(tokens).first(i), 10, mask);
        QCOMPARE(allocations, before);
    }
}

/// A query that the device answers by its own chain gives what the sampler itself draws, to the last bit.
void TestSampler::the_device_draws_the_same_token() {
    const std::vector<float> logits = random_logits(700, 61);
    const std::vector<TokenId> tokens = draw_many(SamplingParams(), logits, 120);
    const std::vector<SamplerStage> all_last = {SamplerStage::dry, SamplerStage::penalties,
                                                SamplerStage::top_k,
                                                SamplerStage::min_p}; // without temperature
    std::vector<SamplingParams> variants;
    for (const float temperature : {0.0f, 0.6f, 1.0f, 1.7f})
        for (const int top_k : {0, 1, 20, 5000})
            for (const float top_p : {0.4f, 1.0f})
                for (const float min_p : {0.0f, 0.1f})
                    for (const bool penalties : {false, true})
                        for (const int logprobs : {-1, 0, 3}) {
                            SamplingParams params;
                            params.temperature = temperature;
                            params.top_k = top_k;
                            params.top_p = top_p;
                            params.min_p = min_p;
                            params.logprobs = logprobs;
                            if (penalties) {
                                params.repetition_penalty = 1.2f;
                                params.frequency_penalty = 0.2f;
                                params.dry_multiplier = 0.8f;
                            }
                            if (logprobs == 0 && top_p == 1.0f)
                                params.order = all_last;
                            variants.push_back(params);
                        }
    for (const SamplingParams& params : variants) {
        Sampler sampler(params, 5, 1);
        Sampler device(params, 5, 1);
        kernels::CandidateSet set;
        for (const size_t length : {60, 90, 120}) {
            const auto text = std::span(tokens).first(length);
            const Sample expected = sampler.draw(logits, text, 10);
            std::vector<LogitChange> changes;
            const auto query = device.query(text, 10, logits.size(), changes);
            QVERIFY(query.has_value());
            std::vector<kernels::TopToken> top(size_t(std::max(params.logprobs, 0)));
            const auto result = kernels::draw_sample(*query, logits, changes, set, top);
            const Sample sample = device.accept(result, top, logits.size());
            QCOMPARE(sample.token, expected.token);
            QCOMPARE(sample.logprob, expected.logprob);
            QCOMPARE(sample.top_logprobs.size(), expected.top_logprobs.size());
            for (size_t i = 0; i < sample.top_logprobs.size(); ++i) {
                QCOMPARE(sample.top_logprobs[i].token, expected.top_logprobs[i].token);
                QCOMPARE(sample.top_logprobs[i].logprob, expected.top_logprobs[i].logprob);
            }
        }
    }
}

void TestSampler::chains_that_the_device_does_not_know() {
    const auto asks = [](auto change) {
        SamplingParams params;
        change(params);
        std::vector<LogitChange> changes;
        return Sampler(params, 1, 0).query({}, 0, 100, changes).has_value();
    };
    QVERIFY(asks([](SamplingParams&) {}));
    QVERIFY(!asks([](SamplingParams& p) { p.typical_p = 0.9f; }));
    QVERIFY(!asks([](SamplingParams& p) { p.top_n_sigma = 1.0f; }));
    QVERIFY(!asks([](SamplingParams& p) { p.xtc_probability = 0.5f; }));
    QVERIFY(!asks([](SamplingParams& p) { p.mirostat = 2; }));
    QVERIFY(!asks([](SamplingParams& p) { p.trace = true; }));
    QVERIFY(!asks([](SamplingParams& p) { p.logit_bias = {{1, 1.0f}}; }));
    QVERIFY(!asks([](SamplingParams& p) { p.order = {SamplerStage::min_p, SamplerStage::top_p}; }));
    QVERIFY(!asks([](SamplingParams& p) { p.order = {SamplerStage::temperature, SamplerStage::top_k}; }));
    // Where the likeliest is taken, the order of what drops others does not matter.
    QVERIFY(asks([](SamplingParams& p) {
        p.temperature = 0.0f;
        p.typical_p = 0.9f;
        p.order = {SamplerStage::min_p, SamplerStage::top_p};
    }));
}

QTEST_GUILESS_MAIN(TestSampler)
#include "tst_sampler.moc"
