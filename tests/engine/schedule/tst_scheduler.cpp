// The scheduler's promises, with a device that computes nothing but knows what must lie in every slot.
#include "kernels/error.h"
#include "tests/engine/schedule/scheduler_harness.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

using namespace orrery;
using Harness = test::SchedulerHarness;
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
    void none_starves_behind_a_priority();
    void equal_places_are_no_equal_requests();
    void none_starves_on_a_small_budget();
    void the_head_of_the_queue_is_not_overtaken();
    void a_sequence_that_joins_leaves_a_block_for_each_other();
    void the_last_by_policy_gives_way();
    void swapped_blocks_come_back();
    void swapping_copies_no_block_that_others_hold_data() { with_and_without_prefixes(); }
    void swapping_copies_no_block_that_others_hold();
    void swapping_copies_only_what_is_overwritten_data() { with_and_without_prefixes(); }
    void swapping_copies_only_what_is_overwritten();
    void shared_blocks_cost_nothing_to_compute_again();
    void the_cheaper_preemption_is_chosen();
    void a_prefix_hit_counts_in_tokens();
    void the_beginning_stays_the_longest();
    void salts_do_not_share();
    void generated_tokens_are_found_too();
    void forks_share_the_prompt();
    void a_step_does_not_touch_those_that_wait();
    void prompts_share_what_answers_leave();
    void a_short_prompt_does_not_wait_for_long_ones();
    void a_prompt_waits_for_blocks_that_are_being_computed();
    void a_sequence_that_joins_is_promised_the_blocks_of_its_prompt();
    void random_lives_keep_every_promise_data();
    void random_lives_keep_every_promise();

private:
    static void with_and_without_prefixes() {
        QTest::addColumn<bool>("prefix_cache");
        QTest::newRow("with prefixes") << true;
        QTest::newRow("without prefixes") << false;
    }
};

void TestScheduler::decodes_go_first_and_prompts_share_the_rest() {
    Harness harness({.limits = {10, 8, 0}});
    Sequence& a = harness.add(3, 20);
    Sequence& b = harness.add(4, 20);
    harness.step();
    Sequence& c = harness.add(12, 20);
    Sequence& d = harness.add(5, 20);
    const StepPlan& first = harness.step();
    QCOMPARE(tokens_of(first, a), 1);
    QCOMPARE(tokens_of(first, b), 1);
    QCOMPARE(tokens_of(first, c), 4); // half of the 8 that are left
    QCOMPARE(tokens_of(first, d), 4);
    const StepPlan& second = harness.step();
    QCOMPARE(tokens_of(second, a), 1);
    QCOMPARE(tokens_of(second, b), 1);
    QCOMPARE(tokens_of(second, c), 7);
    QCOMPARE(tokens_of(second, d), 1); // it has no more to read
    const StepPlan& third = harness.step();
    QCOMPARE(tokens_of(third, c), 1);
    QCOMPARE(tokens_of(third, d), 1);
}

void TestScheduler::chunks_keep_to_their_limit() {
    Harness harness({.limits = {100, 8, 6}});
    Sequence& a = harness.add(20, 1);
    Sequence& b = harness.add(3, 1);
    const StepPlan& plan = harness.step();
    QCOMPARE(tokens_of(plan, a), 6);
    QCOMPARE(tokens_of(plan, b), 3);
    harness.run();
}

void TestScheduler::first_come_is_first_served() {
    Harness harness({.limits = {16, 2, 0}});
    for (int i = 0; i < 6; ++i)
        harness.add(3, 4, i); // the priority counts for nothing
    harness.run();
    QCOMPARE(harness.ended.size(), size_t(6));
    for (size_t i = 0; i < 6; ++i)
        QCOMPARE(harness.ended[i]->request, RequestId(i + 1));
}

void TestScheduler::priority_goes_first() {
    Harness harness({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    for (const int priority : {0, 5, 5, -1, 9})
        harness.add(3, 4, priority);
    harness.run();
    std::vector<RequestId> order;
    for (const Sequence* sequence : harness.ended)
        order.push_back(sequence->request);
    QCOMPARE(order, (std::vector<RequestId>{5, 2, 3, 1, 4}));
}

void TestScheduler::none_starves_behind_a_priority() {
    // One at a time, and more important ones keep coming: each goes first, but not for ever.
    Harness harness({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    harness.add(3, 4); // runs for four steps, in which as many queue up
    const Sequence& humble = harness.add(3, 1, -1);
    int64_t overtaken = 0;
    for (; humble.state == SequenceState::waiting && overtaken <= arrivals_per_priority + 4; ++overtaken) {
        harness.add(1, 1);
        harness.step();
    }
    QVERIFY2(overtaken > 1000, "a level of priority counts for little");
    QVERIFY2(humble.state != SequenceState::waiting, "overtaken without end");
    harness.run();
}

void TestScheduler::equal_places_are_no_equal_requests() {
    Harness harness({.limits = {16, 1, 0}, .policy = SchedulerPolicy::priority});
    // All come to stand at one place, so many arrivals after each other.
    for (int level = 0; level < 5; ++level) {
        Sequence& sequence = harness.add(3, 4, level);
        harness.scheduler.remove(sequence);
        sequence.arrival = uint64_t(1 + level * arrivals_per_priority);
        harness.scheduler.enqueue(sequence);
    }
    QCOMPARE(harness.scheduler.waiting(), 5);
    harness.scheduler.remove(*harness.sequences[3]); // at the same place, but no other one
    QCOMPARE(harness.scheduler.waiting(), 4);
    harness.run();
    std::vector<RequestId> order;
    for (const Sequence* sequence : harness.ended)
        order.push_back(sequence->request);
    QCOMPARE(order, (std::vector<RequestId>{1, 2, 3, 5}));
}

void TestScheduler::none_starves_on_a_small_budget() {
    // Nine that write and one with a long prompt share four tokens a step: all of them go on all the time.
    Harness harness({.blocks = 300, .limits = {16, 10, 0}});
    for (int i = 0; i < 9; ++i)
        harness.add(1, 60);
    harness.add(60, 10);
    harness.step();
    harness.limits = {4, 10, 0};
    harness.scheduler.set_limits(harness.limits);
    for (int i = 0; i < 6; ++i)
        harness.step();
    std::vector<int> before;
    for (const auto& sequence : harness.sequences)
        before.push_back(sequence->computed);
    for (int i = 0; i < 6; ++i)
        harness.step();
    for (size_t i = 0; i < before.size(); ++i)
        QVERIFY2(harness.sequences[i]->computed > before[i], qPrintable(QString("sequence %1").arg(i)));
    harness.run();
}

void TestScheduler::the_head_of_the_queue_is_not_overtaken() {
    Harness harness({.blocks = 10, .block_size = 4, .limits = {64, 8, 0}, .prefix_cache = false});
    harness.add(16, 12);                  // runs, 7 blocks in the end
    Sequence& large = harness.add(28, 4); // does not fit beside it
    Sequence& small = harness.add(2, 2);  // would fit
    const StepPlan& plan = harness.step();
    QCOMPARE(plan.parts.size(), size_t(1));
    bool small_waits = true;
    while (large.state == SequenceState::waiting) {
        small_waits &= small.state == SequenceState::waiting;
        harness.step();
    }
    QVERIFY(small_waits);
    harness.run();
    QCOMPARE(large.preemptions, 0);
}

void TestScheduler::a_sequence_that_joins_leaves_a_block_for_each_other() {
    for (const bool room : {false, true}) {
        Harness harness({.blocks = room ? 6 : 5, .limits = {64, 8, 0}, .prefix_cache = false});
        harness.add(7, 3);
        harness.step();
        Sequence& second = harness.add(12, 1);
        harness.step();
        QCOMPARE(second.state == SequenceState::ended, room);
        harness.run();
        QCOMPARE(second.preemptions, 0);
    }
}

void TestScheduler::the_last_by_policy_gives_way() {
    for (const SchedulerPolicy policy : {SchedulerPolicy::first_come, SchedulerPolicy::priority}) {
        Harness harness({.blocks = 10, .limits = {64, 8, 0}, .policy = policy, .prefix_cache = false});
        Sequence& a = harness.add(8, 24);
        Sequence& b = harness.add(8, 24, 1);
        const bool by_priority = policy == SchedulerPolicy::priority;
        Sequence& victim = by_priority ? a : b;
        Sequence& beneficiary = by_priority ? b : a;
        std::vector<Preemption> seen;
        while (!harness.scheduler.idle()) {
            const StepPlan& plan = harness.step();
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
        QCOMPARE(harness.ended.front(), &beneficiary);
    }
}

void TestScheduler::swapped_blocks_come_back() {
    Harness harness(
        {.blocks = 10, .limits = {64, 8, 0}, .preemption = PreemptionMode::swap, .prefix_cache = false});
    harness.add(8, 24);
    Sequence& victim = harness.add(8, 24);
    bool was_swapped = false;
    int max_computed = 0;
    while (!harness.scheduler.idle()) {
        const StepPlan& plan = harness.step();
        if (!plan.swap_outs.empty()) {
            was_swapped = true;
            max_computed = victim.max_computed;
            QCOMPARE(harness.scheduler.swapped(), 1);
            QCOMPARE(harness.scheduler.waiting(), 0);
        }
        // Nothing is computed twice.
        for (const StepPlan::Part& part : plan.parts)
            QVERIFY(part.sequence != &victim || !was_swapped || part.first >= max_computed);
    }
    QVERIFY(was_swapped);
    QCOMPARE(harness.swap.used(), 0);
}

void TestScheduler::swapping_copies_no_block_that_others_hold() {
    // Eight samples of one prompt of ten blocks; their answers need more than the pool has. Blocks of the
    // prompt are held by those that go on, and in no step copied for one that does not.
    QFETCH(bool, prefix_cache);
    Harness harness({.blocks = 30,
                     .limits = {64, 8, 0},
                     .preemption = PreemptionMode::swap,
                     .swap_blocks = 200,
                     .prefix_cache = prefix_cache});
    Sequence& first = harness.add(40, 40);
    harness.step([&](Sequence& parent, std::vector<Sequence*>& due) {
        for (int i = 0; i < 7; ++i)
            due.push_back(&harness.fork(parent));
    });
    const std::set<int32_t> prompt(first.table.blocks.begin(), first.table.blocks.end());
    QCOMPARE(prompt.size(), size_t(10));
    int swaps = 0, copies = 0;
    while (!harness.scheduler.idle()) {
        const StepPlan& plan = harness.step();
        swaps += int(std::ranges::count(plan.preemptions, PreemptionKind::swap, &Preemption::kind));
        copies += int(plan.swap_outs.size());
        if (first.state != SequenceState::ended)
            for (const StepPlan::Swap& out : plan.swap_outs)
                QVERIFY(!prompt.contains(out.block));
    }
    QVERIFY(swaps > 3);
    QVERIFY(copies > 0);
    QCOMPARE(harness.ended.size(), size_t(8));
    QCOMPARE(harness.swap.used(), 0);
}

void TestScheduler::swapping_copies_only_what_is_overwritten() {
    // The second sequence gives way for one block; the first ends before it needs more.
    QFETCH(bool, prefix_cache);
    Harness harness({.blocks = 10,
                     .limits = {64, 8, 0},
                     .preemption = PreemptionMode::swap,
                     .prefix_cache = prefix_cache});
    harness.add(15, 8);
    Sequence& victim = harness.add(19, 12);
    int outs = 0, ins = 0, max_computed = 0;
    bool was_swapped = false;
    while (!harness.scheduler.idle()) {
        const StepPlan& plan = harness.step();
        outs += int(plan.swap_outs.size());
        ins += int(plan.swap_ins.size());
        if (!plan.preemptions.empty()) {
            was_swapped = true;
            max_computed = victim.max_computed;
            QCOMPARE(plan.preemptions.size(), size_t(1));
            QVERIFY(plan.preemptions[0].kind == PreemptionKind::swap);
        }
        for (const StepPlan::Part& part : plan.parts)
            QVERIFY(part.sequence != &victim || !was_swapped || part.first >= max_computed);
    }
    QVERIFY(was_swapped);
    QVERIFY2(outs <= 1, qPrintable(QString::number(outs)));
    QVERIFY2(ins <= outs, qPrintable(QString::number(ins)));
}

void TestScheduler::shared_blocks_cost_nothing_to_compute_again() {
    // To compute a token again costs as much as to swap a block, so a sequence alone is swapped out. A sample
    // that shares all but a few tokens with another one is cheaper to compute: the rest is found.
    for (const bool shares : {false, true}) {
        Harness harness({.blocks = 22, .limits = {100, 2, 0}, .preemption = PreemptionMode::cheapest});
        harness.scheduler.set_costs({1.0, 3.9}); // of a whole block, swapping is a little cheaper
        harness.add(40, 60);
        if (shares)
            harness.step(
                [&](Sequence& parent, std::vector<Sequence*>& due) { due.push_back(&harness.fork(parent)); });
        else
            harness.add(40, 60);
        std::optional<PreemptionKind> kind;
        while (!kind) {
            const StepPlan& plan = harness.step();
            if (!plan.preemptions.empty())
                kind = plan.preemptions[0].kind;
        }
        const Sequence& victim = *harness.sequences.back();
        QCOMPARE(victim.preemptions, 1);
        QVERIFY(*kind == PreemptionKind::swap || shares);
        harness.run();
    }
}

void TestScheduler::the_cheaper_preemption_is_chosen() {
    for (const bool swap_is_cheap : {true, false}) {
        Harness harness({.blocks = 10, .preemption = PreemptionMode::cheapest});
        harness.scheduler.set_costs({100.0, swap_is_cheap ? 10.0 : 1e6});
        harness.add(8, 24);
        harness.add(8, 24);
        int swaps = 0, recomputes = 0;
        while (!harness.scheduler.idle())
            for (const Preemption& preemption : harness.step().preemptions)
                (preemption.kind == PreemptionKind::swap ? swaps : recomputes) += 1;
        QCOMPARE(swaps > 0, swap_is_cheap);
        QCOMPARE(recomputes > 0, !swap_is_cheap);
    }
    // Without room on the host there is no choice.
    Harness harness({.blocks = 10, .preemption = PreemptionMode::swap, .swap_blocks = 1});
    harness.add(8, 24);
    harness.add(8, 24);
    while (!harness.scheduler.idle())
        for (const Preemption& preemption : harness.step().preemptions)
            QVERIFY(preemption.kind == PreemptionKind::recompute);
}

void TestScheduler::a_prefix_hit_counts_in_tokens() {
    Harness harness({.limits = {64, 8, 0}});
    std::vector<TokenId> prompt(19);
    std::iota(prompt.begin(), prompt.end(), 1);
    harness.add(prompt, 1);
    harness.run();
    QCOMPARE(harness.store.pool().cached(), 4); // 19 tokens: four full blocks

    // The same prompt: the last block's three tokens were never a full block, and one token is computed
    // always.
    Sequence& again = harness.add(prompt, 1);
    QCOMPARE(tokens_of(harness.step(), again), 3);
    QCOMPARE(again.cached_tokens, 16);

    // Exactly the full blocks: the last of them is copied, but for its last token.
    const std::vector<TokenId> whole(prompt.begin(), prompt.begin() + 16);
    Sequence& exact = harness.add(whole, 1);
    const StepPlan& plan = harness.step();
    QCOMPARE(tokens_of(plan, exact), 1);
    QCOMPARE(exact.cached_tokens, 15);
    QCOMPARE(plan.copies.size(), size_t(1));
    QCOMPARE(plan.saved_tokens, 15);

    // Another way from the middle of the third block on.
    std::vector<TokenId> other = prompt;
    other[10] = 999;
    Sequence& parting = harness.add(other, 1);
    QCOMPARE(tokens_of(harness.step(), parting), 9);
    QCOMPARE(parting.cached_tokens, 10);
}

void TestScheduler::the_beginning_stays_the_longest() {
    // What is needed of the cached blocks is taken from the end of the sequence that left them.
    Harness harness({.blocks = 10, .limits = {64, 8, 0}});
    Sequence& first = harness.add(33, 1); // eight full blocks, and one that is begun
    harness.run();
    QCOMPARE(harness.store.pool().cached(), 8);
    harness.add(20, 1); // takes the two free blocks, and three more
    harness.run();
    Sequence& again = harness.add(first.tokens, 1);
    harness.step();
    QCOMPARE(again.cached_tokens, 5 * 4);
}

void TestScheduler::salts_do_not_share() {
    Harness harness({.limits = {64, 8, 0}});
    std::vector<TokenId> prompt(12, 5);
    harness.add(prompt, 1);
    harness.run();
    Sequence& other = harness.add(prompt, 1);
    other.table.salt = 7;
    QCOMPARE(tokens_of(harness.step(), other), 12);
    Sequence& same = harness.add(prompt, 1);
    same.table.salt = 7;
    QCOMPARE(tokens_of(harness.step(), same), 1);
}

void TestScheduler::generated_tokens_are_found_too() {
    Harness harness({.limits = {64, 8, 0}});
    Sequence& first = harness.add(6, 11); // 16 of its 17 tokens have keys and values in the end
    harness.run();
    std::vector<TokenId> next_turn = first.tokens;
    next_turn.insert(next_turn.end(), {70, 71, 72});
    Sequence& second = harness.add(next_turn, 1);
    QCOMPARE(tokens_of(harness.step(), second), 4);
    QCOMPARE(second.cached_tokens, 16);
}

void TestScheduler::forks_share_the_prompt() {
    Harness harness({.blocks = 40, .limits = {64, 4, 0}});
    harness.add(10, 12);
    std::vector<Sequence*> children;
    harness.step([&](Sequence& parent, std::vector<Sequence*>& due) {
        for (int i = 0; i < 5; ++i) {
            children.push_back(&harness.fork(parent));
            if (children.back()->state == SequenceState::running)
                due.push_back(children.back());
        }
    });
    QCOMPARE(harness.store.pool().held(), 3);
    QCOMPARE(harness.scheduler.running().size(), size_t(4)); // the others wait
    // Each writes to a copy of the block that was begun, but the last, which has it alone by then.
    const StepPlan& plan = harness.step();
    QCOMPARE(plan.copies.size(), size_t(3));
    QCOMPARE(harness.store.pool().held(), 2 + 4);
    harness.run();
    QCOMPARE(harness.ended.size(), size_t(6));
    for (const Sequence* child : children)
        QVERIFY(child->cached_tokens >= 8); // in a full block, whether shared at once or found later
}

void TestScheduler::a_step_does_not_touch_those_that_wait() {
    // Not a measurement: sequences that wait beyond the head of the queue are made unreadable in what a plan
    // would look at, so that a step which walks them fails.
    Harness harness({.limits = {4, 1, 0}});
    harness.add(4, 40);
    harness.step();
    std::vector<Sequence*> poisoned;
    for (int i = 0; i < 10'000; ++i)
        poisoned.push_back(&harness.add(1, 1));
    for (Sequence* sequence : poisoned) {
        sequence->tokens.clear(); // a length of 0 and blocks that are not there: to look is to fail
        sequence->computed = std::numeric_limits<int32_t>::min();
        sequence->table.blocks = {std::numeric_limits<int32_t>::max()};
        sequence->swap_slots = {std::numeric_limits<int32_t>::max()};
        sequence->passed_over = std::numeric_limits<int32_t>::max();
    }
    const auto before = harness.scheduler.waiting();
    for (int i = 0; i < 3; ++i) {
        const StepPlan& plan = harness.scheduler.plan();
        QCOMPARE(plan.parts.size(), size_t(1));
        harness.scheduler.complete();
        plan.parts[0].sequence->tokens.push_back(1);
        QCOMPARE(harness.scheduler.waiting(), before);
        QCOMPARE(harness.scheduler.swapped(), 0);
    }
    for (Sequence* sequence : poisoned) {
        QCOMPARE(sequence->passed_over, std::numeric_limits<int32_t>::max());
        QVERIFY(sequence->table.chain.empty()); // their prefixes were not looked up
        sequence->table.blocks.clear();
        sequence->swap_slots.clear();
    }
}

/// Random prompts come while others are read; answers are being written beside them. There are blocks enough,
/// and no two prompts have a beginning in common.
void TestScheduler::prompts_share_what_answers_leave() {
    const uint64_t seed = test::test_seed();
    for (int round = 0; round < 60; ++round) {
        test::Random random(seed + uint64_t(round));
        const int budget = random.between(2, 64), most = random.between(2, 12);
        const int max_chunk = random.chance(0.3) ? random.between(1, 20) : 0;
        Harness harness(
            {.blocks = 4000, .limits = {budget, most, max_chunk}, .prefix_cache = random.chance(0.5)});
        const auto chunk_of = [&](int tokens) {
            return max_chunk > 0 ? std::min(tokens, max_chunk) : tokens;
        };
        const Sequence* last_first = nullptr;
        int steps_of_last_first = 0, shared = 0;
        bool passed_over = false; // in the step before
        harness.watch = [&](const StepPlan& plan) {
            int answers = 0;
            std::vector<const Sequence*> prompts; // in the order in which they came
            for (const Sequence* sequence : harness.scheduler.running()) {
                if (sequence->deficit() > 1)
                    prompts.push_back(sequence);
                else
                    answers += tokens_of(plan, *sequence);
            }
            if (prompts.empty())
                return;
            const int left = budget - answers;
            const Sequence& first = *prompts.front();
            const int given = tokens_of(plan, first);
            QVERIFY2(
                given >= std::min(chunk_of(first.deficit()), (left + 1) / 2),
                qPrintable(QString("seed %1: %2 of %3").arg(seed + uint64_t(round)).arg(given).arg(left)));
            // The first goes on with each step that leaves a token, and one does by the number of answers.
            if (last_first == &first && given == 0)
                QVERIFY2(++steps_of_last_first <= most, "the first prompt starves");
            else
                steps_of_last_first = 0;
            last_first = &first;
            int others = 0;
            for (size_t i = 1; i < prompts.size(); ++i) {
                others += tokens_of(plan, *prompts[i]);
                // After a step without any of them they go first, before others join.
                for (size_t j = 1; !passed_over && j < prompts.size(); ++j)
                    if (prompts[i]->deficit() < prompts[j]->deficit() && tokens_of(plan, *prompts[j]) > 0)
                        QCOMPARE(tokens_of(plan, *prompts[i]), chunk_of(prompts[i]->deficit()));
            }
            shared += given > 0 && others > 0;
            passed_over = given + others == 0;
        };
        for (int step = 0; step < 200 || !harness.scheduler.idle(); ++step) {
            QVERIFY(step < 20'000);
            if (step < 200 && random.chance(0.2))
                harness.add(random.chance(0.3) ? random.between(100, 400) : random.between(1, 12),
                            random.between(1, 20));
            if (!harness.scheduler.idle())
                harness.step();
        }
        QVERIFY(shared > 0 || most == 2 || budget < 4);
    }
}

/// The bound of the header: however much is queued before it, a short prompt that finds a place in the batch
/// is read in as many steps as its share takes, and each long one goes on in every step in which it is the
/// first.
void TestScheduler::a_short_prompt_does_not_wait_for_long_ones() {
    const uint64_t seed = test::test_seed();
    for (int round = 0; round < 60; ++round) {
        test::Random random(seed + uint64_t(round));
        const int budget = random.between(16, 64), longs = random.between(1, 6);
        Harness harness({.blocks = 6000, .limits = {budget, 12, 0}});
        for (int i = 0; i < longs; ++i)
            harness.add(random.between(500, 2000), 5);
        for (int i = random.below(4); i > 0; --i)
            harness.step();
        for (int question = 0; question < 8; ++question) {
            const int tokens = random.between(1, 2 * budget);
            const int answers = int(std::ranges::count_if(
                harness.scheduler.running(), [](const Sequence* s) { return s->deficit() == 1; }));
            const Sequence& asked = harness.add(tokens, 4);
            // Prompts end on the way and become answers: at the most all of them.
            const int share = (budget - answers - longs) / 2;
            const int bound = (tokens + share - 1) / share;
            int steps = 0;
            while (asked.length() == tokens) {
                harness.step();
                steps += 1;
            }
            QVERIFY2(steps <= bound, qPrintable(QString("seed %1: %2 tokens took %3 steps, not %4")
                                                    .arg(seed + uint64_t(round))
                                                    .arg(tokens)
                                                    .arg(steps)
                                                    .arg(bound)));
        }
        harness.run();
    }
}

void TestScheduler::a_prompt_waits_for_blocks_that_are_being_computed() {
    // Two requests with one long beginning: it is read once, with the whole budget, and then found.
    Harness harness({.blocks = 100, .limits = {16, 8, 0}});
    std::vector<TokenId> prompt(64);
    std::iota(prompt.begin(), prompt.end(), 1);
    Sequence& a = harness.add(prompt, 4);
    prompt.push_back(900);
    prompt.push_back(901);
    Sequence& b = harness.add(prompt, 4);
    Sequence& c = harness.add(8, 4); // has nothing in common with them
    QCOMPARE(tokens_of(harness.step(), a), 8);
    QCOMPARE(c.length(), 9);
    for (int i = 0; i < 4; ++i) {
        const StepPlan& plan = harness.step();
        QVERIFY(tokens_of(plan, a) >= std::min(15, a.deficit()));
        QVERIFY(i == 3 || tokens_of(plan, b) == 0);
    }
    harness.run();
    QVERIFY2(b.cached_tokens >= 52, qPrintable(QString::number(b.cached_tokens)));
}

void TestScheduler::a_sequence_that_joins_is_promised_the_blocks_of_its_prompt() {
    // Each of two prompts fits, and only the first chunk of each is taken in the first step.
    Harness harness({.blocks = 10, .limits = {8, 8, 0}, .prefix_cache = false});
    harness.add(24, 2);
    Sequence& second = harness.add(24, 2);
    harness.step();
    QVERIFY(second.state == SequenceState::waiting);
    harness.run();
    QCOMPARE(second.preemptions, 0);
}

void TestScheduler::random_lives_keep_every_promise_data() {
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

void TestScheduler::random_lives_keep_every_promise() {
    QFETCH(Setup, setup);
    const uint64_t seed = test::test_seed() + qHash(QTest::currentDataTag());
    for (int round = 0; round < 20; ++round) {
        test::Random random(seed + uint64_t(round));
        Harness harness(setup);
        harness.scheduler.set_costs({10.0, double(random.below(100))});
        const int most = harness.capacity - 1;
        int born = 0;
        for (int step = 0; step < 400 || !harness.scheduler.idle(); ++step) {
            QVERIFY2(step < 50'000, "the sequences do not come to an end");
            if (step < 400 && random.chance(0.4)) {
                // Few different tokens, and beginnings of earlier sequences: many prefixes meet.
                std::vector<TokenId> prompt;
                if (!harness.sequences.empty() && random.chance(0.5)) {
                    const auto& other =
                        harness.sequences[size_t(random.below(int(harness.sequences.size())))]->tokens;
                    prompt.assign(other.begin(), other.begin() + random.between(0, int(other.size())));
                }
                for (int i = random.below(12); i >= 0; --i)
                    prompt.push_back(random.below(3));
                prompt.resize(size_t(std::min(int(prompt.size()), random.between(1, most))));
                Sequence& sequence = harness.add(prompt, random.between(1, 30), random.below(3));
                sequence.table.salt = uint64_t(random.below(8) == 0);
                born += 1;
            }
            if (random.chance(0.05)) {
                std::vector<Sequence*> open;
                for (const auto& sequence : harness.sequences)
                    if (sequence->state != SequenceState::ended)
                        open.push_back(sequence.get());
                if (!open.empty()) {
                    Sequence* victim = open[size_t(random.below(int(open.size())))];
                    harness.scheduler.remove(*victim);
                    harness.ended.push_back(victim);
                    harness.check_integrity();
                }
            }
            if (harness.scheduler.idle())
                continue;
            harness.step([&](Sequence& parent, std::vector<Sequence*>& due) {
                if (parent.max_computed > parent.prompt_tokens || !random.chance(0.3))
                    return;
                for (int i = random.between(1, 4); i > 0; --i) {
                    Sequence& child = harness.fork(parent);
                    child.table.salt = parent.table.salt;
                    born += 1;
                    if (child.state == SequenceState::running)
                        due.push_back(&child);
                }
            });
        }
        QCOMPARE(int(harness.ended.size()), born);
        QCOMPARE(std::set(harness.ended.begin(), harness.ended.end()).size(), size_t(born));
        QCOMPARE(harness.store.pool().held(), 0);
        QCOMPARE(harness.swap.used(), 0);
    }
}

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
