// The device's chain from logits to a token, against the reference in plain loops.
#include "kernels/reference/sampling.h"
#include "kernels/sampling/draw.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

using namespace orrery::kernels;
using orrery::test::Random;

namespace {

std::atomic<size_t> allocations = 0;

constexpr float infinity = std::numeric_limits<float>::infinity();

float uniform(Random& random, float low, float high) {
    return low + (high - low) * static_cast<float>(static_cast<double>(random.bits() >> 11) * 0x1p-53);
}

/// Logits with a bulk and a few that stand out, some of them equal, and now and then what is no number.
std::vector<float> random_logits(Random& random, int vocabulary) {
    std::vector<float> logits(static_cast<size_t>(vocabulary));
    for (float& logit : logits)
        logit = uniform(random, -6.0f, 2.0f);
    for (int i = 0; i < 8; ++i)
        logits[static_cast<size_t>(random.below(vocabulary))] = uniform(random, 0.0f, 6.0f);
    if (random.chance(0.3)) // equal ones
        for (int i = 0; i < 4; ++i)
            logits[static_cast<size_t>(random.below(vocabulary))] = 5.0f;
    if (random.chance(0.2))
        logits[static_cast<size_t>(random.below(vocabulary))] = std::nanf("");
    if (random.chance(0.2))
        logits[static_cast<size_t>(random.below(vocabulary))] = -infinity;
    if (random.chance(0.05))
        for (int i = random.between(1, 3); i > 0; --i)
            logits[static_cast<size_t>(random.below(vocabulary))] = infinity;
    return logits;
}

std::vector<LogitChange> random_changes(Random& random, int vocabulary) {
    std::vector<LogitChange> changes;
    const int count = random.chance(0.5) ? random.between(1, 12) : 0;
    for (int i = 0; i < count; ++i)
        changes.push_back({random.between(-1, vocabulary), // one step outside on either side
                           random.chance(0.5) ? 1.3 : 1.0,
                           static_cast<double>(uniform(random, -1.0f, 2.0f))});
    return changes;
}

SampleQuery random_query(Random& random, int vocabulary) {
    SampleQuery query;
    query.temperature = random.chance(0.15) ? 0.0f : random.chance(0.2) ? 1.0f : uniform(random, 0.2f, 3.0f);
    query.top_k = random.chance(0.5) ? random.between(1, std::min(vocabulary + 2, 50)) : 0;
    query.top_p = random.chance(0.5) ? uniform(random, 0.0f, 1.0f) : 1.0f;
    query.min_p = random.chance(0.5) ? uniform(random, 0.0f, 0.5f) : 0.0f;
    query.u = static_cast<double>(random.bits() >> 11) * 0x1p-53;
    query.logprobs = random.between(-1, 5);
    return query;
}

} // namespace

void* operator new(size_t bytes) {
    allocations += 1;
    if (void* memory = std::malloc(bytes))
        return memory;
    throw std::bad_alloc();
}
// By name, since sanitizers bring one of their own.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    allocations += 1;
    return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

class TestDraw : public QObject {
    Q_OBJECT

private slots:
    void agrees_with_the_reference();
    void nothing_to_draw_is_told();
    void takes_no_memory();
};

void TestDraw::agrees_with_the_reference() {
    Random random(orrery::test::test_seed());
    int compared = 0;
    for (int i = 0; i < 4000; ++i) {
        const int vocabulary = random.between(1, 300);
        const std::vector<float> logits = random_logits(random, vocabulary);
        const std::vector<LogitChange> changes = random_changes(random, vocabulary);
        SampleQuery query = random_query(random, vocabulary);
        std::vector<TopToken> top(5);
        std::vector<TopToken> expected_top(5);
        CandidateSet set;
        const SampleResult result = draw_sample(query, logits, changes, set, top);
        const SampleResult expected = reference::sample(query, logits, changes, expected_top);

        // Where u stands at the very border between two tokens, or a limit at that between being kept and
        // dropped, rounding decides: those are left out.
        bool is_close = false;
        for (const double step : {-1e-5, 1e-5})
            for (const double step_of_u : {-1e-5, 1e-5}) {
                SampleQuery near = query;
                near.u = std::clamp(query.u + step_of_u, 0.0, 1.0 - 1e-9);
                if (query.top_p < 1.0f)
                    near.top_p = std::max(0.0f, query.top_p + static_cast<float>(step));
                if (query.min_p > 0.0f)
                    near.min_p = std::max(1e-9f, query.min_p * (1.0f + static_cast<float>(step)));
                is_close |= reference::sample(near, logits, changes, expected_top).token != expected.token;
            }
        reference::sample(query, logits, changes, expected_top);
        if (is_close)
            continue;
        compared += 1;
        QCOMPARE(result.token, expected.token);
        QVERIFY(std::abs(result.logprob - expected.logprob) < 1e-4f);
        for (size_t j = 0; j < top.size(); ++j) {
            QCOMPARE(top[j].token, expected_top[j].token);
            QVERIFY(std::abs(top[j].logprob - expected_top[j].logprob) < 1e-4f);
        }
    }
    QVERIFY(compared > 3500);
}

void TestDraw::nothing_to_draw_is_told() {
    const std::vector<float> logits = {-infinity, std::nanf(""), -infinity};
    SampleQuery query;
    query.logprobs = 2;
    std::vector<TopToken> top(2, {7, 1.0f});
    CandidateSet set;
    QCOMPARE(draw_sample(query, logits, {}, set, top).token, -1);
    QCOMPARE(top[0].token, -1);
    QCOMPARE(reference::sample(query, logits, {}, top).token, -1);
}

/// It runs where nothing may throw: on the threads of a device.
void TestDraw::takes_no_memory() {
    Random random(orrery::test::test_seed());
    constexpr int vocabulary = 3000;
    CandidateSet set;
    set.reserve(vocabulary);
    std::vector<TopToken> top(5);
    for (int i = 0; i < 300; ++i) {
        std::vector<float> logits = random_logits(random, vocabulary);
        if (i % 10 == 0) // the longest lists: all logits equal
            std::ranges::fill(logits, i % 20 == 0 ? infinity : 1.0f);
        const std::vector<LogitChange> changes = random_changes(random, vocabulary);
        const SampleQuery query = random_query(random, vocabulary);
        const size_t before = allocations;
        draw_sample(query, logits, changes, set, top);
        QCOMPARE(allocations.load(), before);
    }
}

QTEST_GUILESS_MAIN(TestDraw)
#include "tst_draw.moc"
