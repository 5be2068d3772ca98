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
//    (prompts); prompts share what is left in policy order, in pieces. A sequence that the budget passed
//    over the longest goes before all others in the next step, so that none starves.
//  - When blocks run out, the last sequence by policy gives way to one that stands before it. The first
//    by policy can always go on: nothing deadlocks, provided that every sequence alone fits the pool, which
//    the caller sees to.
//  - A waiting sequence joins as soon as the blocks for all of its present tokens are there, in policy order;
//    the head of the queue is not overtaken.
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

    const std::vector<Sequence*>& running() const { return running_; } ///< in policy order
    int waiting() const { return int(waiting_.size()) - swapped_; }
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
    void give_tokens(Sequence& sequence, int tokens);
    bool make_room(Sequence& sequence, int tokens);
    bool try_room(Sequence& sequence, int tokens);
    bool is_shared(int32_t block) const;
    void preempt(Sequence& victim, const Sequence& beneficiary);
    void withdraw(Sequence& victim);
    bool swap_is_better(const Sequence& victim) const;
    void admit_waiting();
    bool admit(Sequence& sequence, int promised);
    void start_running(Sequence& sequence);
    void forget_swapped(Sequence& sequence) noexcept;
    int missing_blocks(const Sequence& sequence) const;

    BlockStore& store_;
    HostSwap& swap_;
    Before before_;
    PreemptionMode preemption_;
    SchedulerLimits limits_;
    PreemptionCosts costs_;

    std::vector<Sequence*> running_;
    std::set<Sequence*, Before> waiting_;
    int swapped_ = 0;      ///< how many of those that wait have their blocks in host memory
    int longest_wait_ = 0; ///< the largest `passed_over`

    // The step being planned.
    StepPlan plan_;
    int budget_ = 0;
    bool out_of_blocks_ = false; ///< a sequence that was due found no blocks
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
