// Continuous batching: decides for each step which sequences run and how many tokens each of them gets.
//
// There is one rule (after Sarathi-Serve, Agrawal et al. 2024, and vLLM's unified scheduler): a sequence is
// given tokens so that `computed` catches up with `length`. Prompts, pieces of prompts, decodes, what was
// found in the cache and what was lost to a preemption differ only in how far behind they are.
//
// Promises:
//
//  - A step never exceeds the token budget, and no more than `max_sequences` sequences run.
//  - Sequences that are one token behind (answers being written) go before those that are further behind
//    (prompts). What the budget passed over the longest, an answer or the prompts together, goes before all
//    others in the next step, so that none starves.
//  - Prompts share what is left. The first by policy gets at least half of it, rounded up, as long as it has
//    so much to read: so it never starves, and every prompt becomes the first. The rest goes to the others,
//    the one with the least to read first (shortest remaining processing time, Schrage 1968): of L tokens
//    that are left in each step, a prompt of r tokens has been read after ceil(s / floor(L / 2)) steps, s
//    being r and what those have to read that have less. What they do not need goes to the first.
//  - A prompt that has not begun and whose next block the first one computes too waits for that block.
//  - A sequence that is swapped out keeps what it has computed. Nothing is copied until a block of it is
//  taken
//    for something else (see HostSwap).
//  - When blocks run out, the last sequence by policy gives way to one that stands before it. The first
//    by policy can always go on: nothing deadlocks, provided that every sequence alone fits the pool, which
//    the caller sees to.
//  - A waiting sequence joins as soon as the blocks for all of its present tokens are there, in policy order;
//    the head of the queue is not overtaken. Until it gets its first tokens it holds no more than the blocks
//    that it found in the cache, and goes back to the queue where these, or its place, are needed.
//  - Under the priority policy, prompts of a lower priority than the first one's have no share of their own.
//  - Under the priority policy a level of priority counts for `arrivals_per_priority` places in the queue:
//    a waiting request is overtaken by so many later requests per level at the most.
//  - The cost of a step does not depend on how many sequences wait.
#pragma once

#include "engine/cache/block_store.h"
#include "engine/cache/host_swap.h"
#include "engine/config.h"
#include "engine/schedule/step_plan.h"

#include <set>

namespace orrery {

/// Requests that one level of priority goes before: more than any queue that a person watches, and yet an
/// end.
inline constexpr int64_t arrivals_per_priority = 10'000;

struct SchedulerLimits {
    int max_step_tokens = 512;
    int max_sequences = 64;
    int max_chunk = 0; ///< tokens of one sequence in one step; 0: the budget
};

/// What giving way costs, as measured. Zero: not measured yet.
struct PreemptionCosts {
    double ns_per_token = 0;         ///< to compute a token again, as part of a long chunk
    double ns_per_swapped_block = 0; ///< to copy a block to the host and back
};

class Scheduler {
public:
    Scheduler(BlockStore& store, HostSwap& swap, SchedulerPolicy policy, PreemptionMode preemption,
              const SchedulerLimits& limits);

    /// A sequence with all of its tokens still to compute waits for its turn.
    void enqueue(Sequence& sequence);

    /// `child`, which has the parent's tokens, shares what the parent has computed and runs at once; where no
    /// more sequences may run, it waits, and what the parent has computed is likely to be found in the cache.
    void fork(Sequence& parent, Sequence& child);

    /// Plans the next step. The plan is valid until the next call.
    const StepPlan& plan();

    /// The plan has been carried out: its tokens have keys and values now.
    void complete();

    /// The plan could not be carried out. Its sequences are to be removed; what it would have swapped out is
    /// lost, and will be computed again. Where plan(), complete() or fork() itself has failed, every sequence
    /// is to be removed.
    void abandon() noexcept;

    /// A sequence leaves, and gives back all that it held. One that never came is let go as well.
    void remove(Sequence& sequence) noexcept;

    void set_limits(const SchedulerLimits& limits) { limits_ = limits; }
    void set_costs(const PreemptionCosts& costs) { costs_ = costs; }

    /// The batch, in policy order: those included that have not begun.
    const std::vector<Sequence*>& running() const { return running_; }
    /// Without tokens so far, since they came or were last preempted; the swapped ones are counted apart.
    int waiting() const { return int(waiting_.size()) - swapped_ + joined(); }
    /// How many of the batch have not begun.
    int joined() const;
    int swapped() const { return swapped_; }
    bool idle() const { return running_.empty() && waiting_.empty(); }
    /// Slots of held blocks that no token has been written to; of a shared block they count once.
    int unused_slots() const;

private:
    /// First by policy first; a total order.
    struct Before {
        SchedulerPolicy policy;
        int64_t place(const Sequence& sequence) const;
        bool operator()(const Sequence* a, const Sequence* b) const;
    };

    void close_plan();
    void let_go_of_sources() noexcept;
    int chunk(const Sequence& sequence) const;
    template <typename Choice>
    void serve(Choice choice);
    void serve(Sequence& sequence, int limit);
    void serve_prompts();
    bool shares_budget(Sequence& first, Sequence& other);
    void begin(Sequence& sequence);
    void give_tokens(Sequence& sequence, int tokens);
    bool make_room(Sequence& sequence, int tokens);
    bool try_room(Sequence& sequence, int tokens);
    bool is_shared(int32_t block) const;
    void preempt(Sequence& victim, const Sequence& beneficiary);
    void withdraw(Sequence& victim);
    void send_back(Sequence& sequence);
    bool swap_is_better(const Sequence& victim) const;
    void admit_waiting();
    bool admit(Sequence& sequence, int promised);
    int find_swapped(Sequence& sequence, int whole);
    void swap_in(Sequence& sequence, int whole);
    void start_running(Sequence& sequence);
    void reserve_lists(Sequence& sequence);
    void forget_swapped(Sequence& sequence) noexcept;
    int missing_blocks(const Sequence& sequence) const;
    int promised_blocks() const;

    BlockStore& store_;
    HostSwap& swap_;
    Before before_;
    PreemptionMode preemption_;
    SchedulerLimits limits_;
    PreemptionCosts costs_;

    std::vector<Sequence*> running_;
    std::set<Sequence*, Before> waiting_;
    int swapped_ = 0;             ///< how many of those that wait have their blocks in host memory
    int longest_wait_ = 0;        ///< the largest `passed_over`, that of the prompts included
    int prompts_passed_over_ = 0; ///< for how many steps in succession none of the prompts got a token

    // The step being planned.
    StepPlan plan_;
    int budget_ = 0;
    std::vector<Sequence*> prompts_; ///< those to be served
    std::vector<int32_t> restored_;  ///< blocks of a swapped sequence: where its content is, or -1
    /// Copies of this step: for whom, where in its table. The source is pinned until the plan is done.
    struct Copy {
        Sequence* sequence;
        int index;
        int32_t from;
        bool replaces; ///< the source was the table's own block, shared with others
    };
    std::vector<Copy> copies_;
};

} // namespace orrery
