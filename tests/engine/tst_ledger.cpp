// The ledger beside a plain model of it: ends are ordered in turn, the first order counts, and each sample
// ends once.
#include "engine/ledger.h"
#include "engine/sequence_group.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

using namespace orrery;

namespace {

Request request_of(int prompt_tokens, int samples) {
    Request request;
    request.prompt.assign(size_t(prompt_tokens), 5);
    request.samples = samples;
    return request;
}

/// What the test knows of an open request.
struct Known {
    int prompt_tokens = 0;
    std::map<int, int> tokens; ///< of each open sample
    FinishReason ordered = FinishReason::none;
};

} // namespace

class TestLedger : public QObject {
    Q_OBJECT

private slots:
    void samples_outside_of_the_limits_are_still_ended();
    void a_withdrawn_request_was_never_there();
    void random_operations_agree_with_a_model();
};

void TestLedger::samples_outside_of_the_limits_are_still_ended() {
    for (const auto& [asked, ends] :
         {std::pair(0, 1), {-7, 1}, {1, 1}, {max_samples, max_samples}, {1'000'000, max_samples}}) {
        Ledger ledger;
        OpenRequest* const request = ledger.open(Ledger::ticket(9, request_of(3, asked)));
        QVERIFY(request);
        QCOMPARE(int(request->samples.size()), ends);
        for (int sample = 0; sample < ends; ++sample) {
            TokenDelta delta;
            QCOMPARE(ledger.enter_end(*request, sample, FinishReason::rejected, delta), sample == ends - 1);
        }
        QVERIFY(ledger.empty());
    }
}

void TestLedger::a_withdrawn_request_was_never_there() {
    Ledger ledger;
    OpenRequest* const first = ledger.open(Ledger::ticket(1, request_of(3, 1)));
    OpenRequest* const second = ledger.open(Ledger::ticket(2, request_of(3, 1)));
    ledger.order_end(*first, FinishReason::cancelled);
    ledger.order_end(*second, FinishReason::cancelled);
    ledger.withdraw(*second);
    QVERIFY(!ledger.find(2));
    QCOMPARE(ledger.first_ordered(), first);
    ledger.withdraw(*first);
    QVERIFY(ledger.empty() && !ledger.first_ordered());
    QVERIFY(ledger.open(Ledger::ticket(1, request_of(3, 1)))); // its id is free
}

void TestLedger::random_operations_agree_with_a_model() {
    const uint64_t seed = test::test_seed();
    for (int round = 0; round < 50; ++round) {
        test::Random random(seed + uint64_t(round));
        Ledger ledger;
        std::map<RequestId, Known> known;
        std::deque<RequestId> ordered;
        const auto check = [&] {
            QCOMPARE(ledger.empty(), known.empty());
            QCOMPARE(ledger.requests().size(), known.size());
            const OpenRequest* const first = ledger.first_ordered();
            QCOMPARE(first ? first->id : 0, ordered.empty() ? 0 : ordered.front());
            for (const OpenRequest* at = first; at; at = at->next_ordered)
                QVERIFY(std::ranges::count(ordered, at->id) == 1);
        };
        for (int i = 0; i < 400; ++i) {
            const RequestId id = RequestId(random.between(1, 20));
            OpenRequest* const found = ledger.find(id);
            QCOMPARE(found != nullptr, known.contains(id));
            const int choice = random.below(10);
            if (choice < 3) {
                const int prompt = random.between(0, 50), samples = random.between(1, 5);
                const OpenRequest* const opened =
                    ledger.open(Ledger::ticket(id, request_of(prompt, samples)));
                QCOMPARE(opened != nullptr, !found); // an id in use is refused
                if (opened) {
                    known[id].prompt_tokens = prompt;
                    for (int sample = 0; sample < samples; ++sample)
                        known[id].tokens[sample] = 0;
                }
            } else if (!found) {
                continue;
            } else if (choice < 5) {
                const auto reason =
                    FinishReason(random.between(int(FinishReason::cancelled), int(FinishReason::error)));
                ledger.order_end(*found, reason);
                if (known[id].ordered == FinishReason::none) {
                    known[id].ordered = reason;
                    ordered.push_back(id);
                }
                QVERIFY(found->ordered == known[id].ordered);
            } else {
                auto sample = std::next(known[id].tokens.begin(), random.below(int(known[id].tokens.size())));
                QVERIFY(found->samples[size_t(sample->first)].open);
                if (choice < 8) {
                    ledger.enter_token(*found, sample->first);
                    sample->second += 1;
                } else {
                    TokenDelta delta;
                    const bool last = known[id].tokens.size() == 1;
                    QCOMPARE(ledger.enter_end(*found, sample->first, FinishReason::length, delta), last);
                    QVERIFY(delta.finish == FinishReason::length);
                    QCOMPARE(delta.usage.prompt_tokens, known[id].prompt_tokens);
                    QCOMPARE(delta.usage.completion_tokens, sample->second);
                    QVERIFY(!found->samples[size_t(sample->first)].open); // in memory until it is forgotten
                    known[id].tokens.erase(sample);
                    if (last) {
                        known.erase(id);
                        std::erase(ordered, id);
                    }
                    if (random.chance(0.5))
                        ledger.forget_ended();
                }
            }
            check();
        }
    }
}

QTEST_GUILESS_MAIN(TestLedger)
#include "tst_ledger.moc"
