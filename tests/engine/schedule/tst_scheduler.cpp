// The scheduler's promises, with a device that computes nothing but knows what must lie in every slot.
#include "kernels/error.h"
#include "tests/engine/schedule/scheduler_bench.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

using namespace orrery;
using Bench = test::SchedulerBench;
using Setup = test::SchedulerSetup;

namespace {

int tokens_of(const StepPlan& plan, const Sequence& sequence) {
    const auto part = std::ranges::find(plan.parts, &sequence, &StepPlan::Part::sequence);
    return part == plan.parts.end() ? 0 : part->tokens;
}

} // namespace

Q_DECLARE_METATYPE(Setup)

class TestScheduler : public QObject {
    Q_OBJECT

private slots:
    void decodes_go_first_and_prompts_share_the_rest();
    void chunks_keep_to_their_limit();
    void first_come_is_first_served();
    void priority_goes_first();
    void nobody_starves_behind_a_priority();
    void equal_places_are_no_equal_requests();
    void nobody_starves_on_a_small_budget();
    void the_head_of_the_queue_is_not_overtaken();
    void who_joins_leaves_a_block_for_each_who_runs();
    void the_last_by_policy_gives_way();
    void swapped_blocks_come_back();
    void the_cheaper_preemption_is_chosen();
    void a_prefix_hit_counts_in_tokens();
    void the_beginning_stays_the_longest();
    void salts_do_not_share();
    void generated_tokens_are_found_too();
    void forks_share_the_prompt();
    void waiting_costs_nothing();
    void anything_may_happen_data();
    void anything_may_happen();
};

void TestScheduler::decodes_go_first_and_prompts_share_the_rest() {
    Bench bench({.limits = {10, 8, 0}});
    Sequence& a = bench.add(3, 20);
    Sequence& b = bench.add(4, 20);
    bench.step();
    Sequence& c = bench.add(12, 20);
    Sequence& d = bench.add(5, 20);
    const StepPlan& first = bench.step();
    QCOMPARE(tokens_of(first, a), 1);
    QCOMPARE(tokens_of(first, b), 1);
    QCOMPARE(tokens_of(first, c), 8);
    QCOMPARE(tokens_of(first, d), 0);
    const StepPlan& second = bench.step();
    QCOMPARE(tokens_of(second, a), 1);
    QCOMPARE(tokens_of(second, b), 1);
    QCOMPARE(tokens_of(second, c), 4);
    QCOMPARE(tokens_of(second, d), 4);
    const StepPlan& third = bench.step();
    QCOMPARE(tokens_of(third, c), 1);
    QCOMPARE(tokens_of(third, d), 1);
}

void TestScheduler::chunks_keep_to_their_limit() {
    Bench bench({.limits = {100, 8, 6}});
    Sequence& a = bench.add(20, 1);
    Sequence& b = bench.add(3, 1);
    const StepPlan& plan = bench.step();
    QCOMPARE(tokens_of(plan, a), 6);
    QCOMPARE(tokens_of(plan, b), 3);
    bench.run();
}

void TestScheduler::first_come_is_first_served() {
    Bench bench({.limits = {16, 2, 0}});
    for (int i = 0; i < 6; ++i)
        bench.add(3, 4, i); // the priority counts for nothing
    bench.run();
    QCOMPARE(bench.ended.size(), size_t(6));
    for (size_t i = 0; i < 6; ++i)
        QCOMPARE(bench.ended[i]->request, RequestId(i + 1));
}

void TestScheduler::priority_goes_first() {
    Bench bench({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    for (const int priority : {0, 5, 5, -1, 9})
        bench.add(3, 4, priority);
    bench.run();
    std::vector<RequestId> order;
    for (const Sequence* sequence : bench.ended)
        order.push_back(sequence->request);
    QCOMPARE(order, (std::vector<RequestId>{5, 2, 3, 1, 4}));
}

void TestScheduler::nobody_starves_behind_a_priority() {
    // One at a time, and more important ones keep coming: each goes first, but not for ever.
    Bench bench({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    bench.add(3, 4); // runs for four steps, in which as many queue up
    const Sequence& humble = bench.add(3, 1, -1);
    int64_t overtaken = 0;
    for (; humble.state == SequenceState::waiting && overtaken <= arrivals_per_priority + 4; ++overtaken) {
        bench.add(1, 1);
        bench.step();
    }
    QVERIFY2(overtaken > 1000, "a level of priority counts for little");
    QVERIFY2(humble.state != SequenceState::waiting, "overtaken without end");
    bench.run();
}

void TestScheduler::equal_places_are_no_equal_requests() {
    Bench bench({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    // All come to stand at one place, so many arrivals after each other.
    for (int level = 0; level < 5; ++level) {
        Sequence& sequence = bench.add(3, 4, level);
        bench.scheduler.remove(sequence);
        sequence.arrival = uint64_t(1 + level * arrivals_per_priority);
        bench.scheduler.enqueue(sequence);
    }
    QCOMPARE(bench.scheduler.waiting(), 5);
    bench.scheduler.remove(*bench.sequences[3]); // nobody else's place
    QCOMPARE(bench.scheduler.waiting(), 4);
    bench.run();
    std::vector<RequestId> order;
    for (const Sequence* sequence : bench.ended)
        order.push_back(sequence->request);
    QCOMPARE(order, (std::vector<RequestId>{1, 2, 3, 5}));
}

void TestScheduler::nobody_starves_on_a_small_budget() {
    // Nine that write and one with a long prompt share four tokens a step: everybody goes on all the time.
    Bench bench({.blocks = 300, .limits = {16, 10, 0}});
    for (int i = 0; i < 9; ++i)
        bench.add(1, 60);
    bench.add(60, 10);
    bench.step();
    bench.limits = {4, 10, 0};
    bench.scheduler.set_limits(bench.limits);
    for (int i = 0; i < 6; ++i)
        bench.step();
    std::vector<int> before;
    for (const auto& sequence : bench.sequences)
        before.push_back(sequence->computed);
    for (int i = 0; i < 6; ++i)
        bench.step();
    for (size_t i = 0; i < before.size(); ++i)
        QVERIFY2(bench.sequences[i]->computed > before[i], qPrintable(QString("sequence %1").arg(i)));
    bench.run();
}

void TestScheduler::the_head_of_the_queue_is_not_overtaken() {
    Bench bench({.blocks = 10, .block_size = 4, .limits = {64, 8, 0}, .prefix_cache = false});
    bench.add(16, 12);                  // runs, 7 blocks in the end
    Sequence& large = bench.add(28, 4); // does not fit beside it
    Sequence& small = bench.add(2, 2);  // would fit
    const StepPlan& plan = bench.step();
    QCOMPARE(plan.parts.size(), size_t(1));
    bench.run();
    QVERIFY(std::ranges::find(bench.ended, &large) < std::ranges::find(bench.ended, &small) ||
            large.state == SequenceState::ended);
    QCOMPARE(large.preemptions, 0);
}

void TestScheduler::who_joins_leaves_a_block_for_each_who_runs() {
    for (const bool room : {false, true}) {
        Bench bench({.blocks = room ? 6 : 5, .limits = {64, 8, 0}, .prefix_cache = false});
        bench.add(7, 3);
        bench.step();
        Sequence& second = bench.add(12, 1);
        bench.step();
        QCOMPARE(second.state == SequenceState::ended, room);
        bench.run();
        QCOMPARE(second.preemptions, 0);
    }
}

void TestScheduler::the_last_by_policy_gives_way() {
    for (const SchedulerPolicy policy : {SchedulerPolicy::first_come, SchedulerPolicy::priority}) {
        Bench bench({.blocks = 10, .limits = {64, 8, 0}, .policy = policy, .prefix_cache = false});
        Sequence& a = bench.add(8, 24);
        Sequence& b = bench.add(8, 24, 1);
        const bool by_priority = policy == SchedulerPolicy::priority;
        Sequence& victim = by_priority ? a : b;
        Sequence& beneficiary = by_priority ? b : a;
        std::vector<Preemption> seen;
        while (!bench.scheduler.idle()) {
            const StepPlan& plan = bench.step();
            seen.insert(seen.end(), plan.preemptions.begin(), plan.preemptions.end());
        }
        QVERIFY(!seen.empty());
        for (const Preemption& preemption : seen) {
            QCOMPARE(preemption.victim, victim.request);
            QCOMPARE(preemption.beneficiary, beneficiary.request);
            QVERIFY(preemption.kind == PreemptionKind::recompute);
            QVERIFY(preemption.blocks > 0);
        }
        QCOMPARE(beneficiary.preemptions, 0);
        QCOMPARE(victim.preemptions, int(seen.size()));
        QCOMPARE(bench.ended.front(), &beneficiary);
    }
}

void TestScheduler::swapped_blocks_come_back() {
    Bench bench(
        {.blocks = 10, .limits = {64, 8, 0}, .preemption = PreemptionMode::swap, .prefix_cache = false});
    bench.add(8, 24);
    Sequence& victim = bench.add(8, 24);
    bool was_swapped = false;
    int most_computed = 0;
    while (!bench.scheduler.idle()) {
        const StepPlan& plan = bench.step();
        if (!plan.swap_outs.empty()) {
            was_swapped = true;
            most_computed = victim.most_computed;
            QCOMPARE(bench.scheduler.swapped(), 1);
            QCOMPARE(bench.scheduler.waiting(), 0);
        }
        // Nothing is computed twice.
        for (const StepPlan::Part& part : plan.parts)
            QVERIFY(part.sequence != &victim || !was_swapped || part.first >= most_computed);
    }
    QVERIFY(was_swapped);
    QCOMPARE(bench.swap.used(), 0);
}

void TestScheduler::the_cheaper_preemption_is_chosen() {
    for (const bool swap_is_cheap : {true, false}) {
        Bench bench({.blocks = 10, .preemption = PreemptionMode::cheapest});
        bench.scheduler.set_costs({100.0, swap_is_cheap ? 10.0 : 1e6});
        bench.add(8, 24);
        bench.add(8, 24);
        int swaps = 0, recomputes = 0;
        while (!bench.scheduler.idle())
            for (const Preemption& preemption : bench.step().preemptions)
                (preemption.kind == PreemptionKind::swap ? swaps : recomputes) += 1;
        QCOMPARE(swaps > 0, swap_is_cheap);
        QCOMPARE(recomputes > 0, !swap_is_cheap);
    }
    // Without room on the host there is no choice.
    Bench bench({.blocks = 10, .preemption = PreemptionMode::swap, .swap_blocks = 1});
    bench.add(8, 24);
    bench.add(8, 24);
    while (!bench.scheduler.idle())
        for (const Preemption& preemption : bench.step().preemptions)
            QVERIFY(preemption.kind == PreemptionKind::recompute);
}

void TestScheduler::a_prefix_hit_counts_in_tokens() {
    Bench bench({.limits = {64, 8, 0}});
    std::vector<TokenId> prompt(19);
    std::iota(prompt.begin(), prompt.end(), 1);
    bench.add(prompt, 1);
    bench.run();
    QCOMPARE(bench.store.pool().cached(), 4); // 19 tokens: four full blocks

    // The same prompt: the last block's three tokens were never a full block, and one token is computed
    // always.
    Sequence& again = bench.add(prompt, 1);
    QCOMPARE(tokens_of(bench.step(), again), 3);
    QCOMPARE(again.cached_tokens, 16);

    // Exactly the full blocks: the last of them is copied, but for its last token.
    const std::vector<TokenId> whole(prompt.begin(), prompt.begin() + 16);
    Sequence& exact = bench.add(whole, 1);
    const StepPlan& plan = bench.step();
    QCOMPARE(tokens_of(plan, exact), 1);
    QCOMPARE(exact.cached_tokens, 15);
    QCOMPARE(plan.copies.size(), size_t(1));
    QCOMPARE(plan.saved_tokens, 15);

    // Another way from the middle of the third block on.
    std::vector<TokenId> other = prompt;
    other[10] = 999;
    Sequence& parting = bench.add(other, 1);
    QCOMPARE(tokens_of(bench.step(), parting), 9);
    QCOMPARE(parting.cached_tokens, 10);
}

void TestScheduler::the_beginning_stays_the_longest() {
    // What is needed of the cached blocks is taken from the end of the sequence that left them.
    Bench bench({.blocks = 10, .limits = {64, 8, 0}});
    Sequence& first = bench.add(33, 1); // eight full blocks, and one that is begun
    bench.run();
    QCOMPARE(bench.store.pool().cached(), 8);
    bench.add(20, 1); // takes the two free blocks, and three more
    bench.run();
    Sequence& again = bench.add(first.tokens, 1);
    bench.step();
    QCOMPARE(again.cached_tokens, 5 * 4);
}

void TestScheduler::salts_do_not_share() {
    Bench bench({.limits = {64, 8, 0}});
    std::vector<TokenId> prompt(12, 5);
    bench.add(prompt, 1);
    bench.run();
    Sequence& other = bench.add(prompt, 1);
    other.table.salt = 7;
    QCOMPARE(tokens_of(bench.step(), other), 12);
    Sequence& same = bench.add(prompt, 1);
    same.table.salt = 7;
    QCOMPARE(tokens_of(bench.step(), same), 1);
}

void TestScheduler::generated_tokens_are_found_too() {
    Bench bench({.limits = {64, 8, 0}});
    Sequence& first = bench.add(6, 11); // 16 of its 17 tokens have keys and values in the end
    bench.run();
    std::vector<TokenId> next_turn = first.tokens;
    next_turn.insert(next_turn.end(), {70, 71, 72});
    Sequence& second = bench.add(next_turn, 1);
    QCOMPARE(tokens_of(bench.step(), second), 4);
    QCOMPARE(second.cached_tokens, 16);
}

void TestScheduler::forks_share_the_prompt() {
    Bench bench({.blocks = 40, .limits = {64, 4, 0}});
    bench.add(10, 12);
    std::vector<Sequence*> children;
    bench.step([&](Sequence& parent, std::vector<Sequence*>& due) {
        for (int i = 0; i < 5; ++i) {
            children.push_back(&bench.fork(parent));
            if (children.back()->state == SequenceState::running)
                due.push_back(children.back());
        }
    });
    QCOMPARE(bench.store.pool().held(), 3);
    QCOMPARE(bench.scheduler.running().size(), size_t(4)); // the others wait
    // Each writes to a copy of the block that was begun, but the last, who has it alone by then.
    const StepPlan& plan = bench.step();
    QCOMPARE(plan.copies.size(), size_t(3));
    QCOMPARE(bench.store.pool().held(), 2 + 4);
    bench.run();
    QCOMPARE(bench.ended.size(), size_t(6));
    for (const Sequence* child : children)
        QVERIFY(child->cached_tokens >= 8); // in a full block, whether shared at once or found later
}

void TestScheduler::waiting_costs_nothing() {
    // Not a measurement: the set of those that wait must not be walked, so that poisoned entries are never
    // touched.
    Bench bench({.limits = {4, 1, 0}});
    bench.add(4, 40);
    bench.step();
    for (int i = 0; i < 10'000; ++i)
        bench.add(1, 1);
    const auto before = bench.scheduler.waiting();
    bench.scheduler.plan();
    bench.scheduler.complete();
    QCOMPARE(bench.scheduler.waiting(), before);
    for (size_t i = 2; i < bench.sequences.size(); ++i)
        QVERIFY(bench.sequences[i]->table.chain.empty()); // nobody looked for their prefixes
}

void TestScheduler::anything_may_happen_data() {
    QTest::addColumn<Setup>("setup");
    using enum PreemptionMode;
    constexpr auto first_come = SchedulerPolicy::first_come;
    constexpr auto priority = SchedulerPolicy::priority;
    QTest::newRow("roomy") << Setup{};
    QTest::newRow("tiny pool, recompute") << Setup{10, 4, {16, 8, 0}, first_come, recompute, 0, true};
    QTest::newRow("tiny pool, swap") << Setup{10, 4, {16, 8, 0}, first_come, swap, 64, true};
    QTest::newRow("tiny pool, little swap") << Setup{10, 4, {16, 8, 0}, priority, swap, 5, true};
    QTest::newRow("tiny pool, no prefixes") << Setup{10, 4, {16, 8, 0}, first_come, swap, 64, false};
    QTest::newRow("priority, cheapest") << Setup{16, 4, {16, 8, 3}, priority, cheapest, 64, true};
    QTest::newRow("tiny pool, tight budget") << Setup{14, 2, {4, 8, 3}, priority, recompute, 0, false};
    QTest::newRow("one token a step") << Setup{16, 4, {1, 4, 0}, first_come, cheapest, 64, true};
    QTest::newRow("one sequence") << Setup{16, 4, {8, 1, 0}, priority, swap, 64, true};
    QTest::newRow("blocks of one token") << Setup{40, 1, {8, 6, 0}, first_come, swap, 64, true};
    QTest::newRow("blocks of sixteen") << Setup{6, 16, {32, 6, 0}, priority, swap, 64, true};
    QTest::newRow("many") << Setup{200, 4, {64, 40, 8}, priority, cheapest, 64, true};
}

void TestScheduler::anything_may_happen() {
    QFETCH(Setup, setup);
    const uint64_t seed = test::test_seed() + qHash(QTest::currentDataTag());
    for (int round = 0; round < 20; ++round) {
        test::Random random(seed + uint64_t(round));
        Bench bench(setup);
        bench.scheduler.set_costs({10.0, double(random.below(100))});
        const int most = bench.capacity - 1;
        int born = 0;
        for (int step = 0; step < 400 || !bench.scheduler.idle(); ++step) {
            QVERIFY2(step < 50'000, "the sequences do not come to an end");
            if (step < 400 && random.chance(0.4)) {
                // Few different tokens, and beginnings of earlier sequences: many prefixes meet.
                std::vector<TokenId> prompt;
                if (!bench.sequences.empty() && random.chance(0.5)) {
                    const auto& other =
                        bench.sequences[size_t(random.below(int(bench.sequences.size())))]->tokens;
                    prompt.assign(other.begin(), other.begin() + random.between(0, int(other.size())));
                }
                for (int i = random.below(12); i >= 0; --i)
                    prompt.push_back(random.below(3));
                prompt.resize(size_t(std::min(int(prompt.size()), random.between(1, most))));
                Sequence& sequence = bench.add(prompt, random.between(1, 30), random.below(3));
                sequence.table.salt = uint64_t(random.below(8) == 0);
                born += 1;
            }
            if (random.chance(0.05)) {
                std::vector<Sequence*> open;
                for (const auto& sequence : bench.sequences)
                    if (sequence->state != SequenceState::ended)
                        open.push_back(sequence.get());
                if (!open.empty()) {
                    Sequence* victim = open[size_t(random.below(int(open.size())))];
                    bench.scheduler.remove(*victim);
                    bench.ended.push_back(victim);
                    bench.check_integrity();
                }
            }
            if (bench.scheduler.idle())
                continue;
            bench.step([&](Sequence& parent, std::vector<Sequence*>& due) {
                if (parent.most_computed > parent.prompt_tokens || !random.chance(0.3))
                    return;
                for (int i = random.between(1, 4); i > 0; --i) {
                    Sequence& child = bench.fork(parent);
                    child.table.salt = parent.table.salt;
                    born += 1;
                    if (child.state == SequenceState::running)
                        due.push_back(&child);
                }
            });
        }
        QCOMPARE(int(bench.ended.size()), born);
        QCOMPARE(std::set(bench.ended.begin(), bench.ended.end()).size(), size_t(born));
        QCOMPARE(bench.store.pool().held(), 0);
        QCOMPARE(bench.swap.used(), 0);
    }
}

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
