// A scheduler at work without an engine: everything around it that a model would be needed for, and the
// promises that every one of its plans has to keep.
#pragma once

#include "engine/schedule/scheduler.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "tests/engine/schedule/scheduled_device.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace orrery::test {

struct SchedulerSetup {
    int blocks = 64;
    int block_size = 4;
    SchedulerLimits limits = {16, 8, 0};
    SchedulerPolicy policy = SchedulerPolicy::first_come;
    PreemptionMode preemption = PreemptionMode::recompute;
    int swap_blocks = 64;
    bool prefix_cache = true;
};

/// A scheduler with everything around it that a model would be needed for.
class SchedulerHarness {
public:
    explicit SchedulerHarness(const SchedulerSetup& setup)
        : store(setup.blocks, setup.block_size, setup.prefix_cache),
          swap(*backend, size_t(setup.swap_blocks), 1),
          scheduler(store, swap, setup.policy, setup.preemption, setup.limits),
          device(setup.blocks, setup.block_size),
          limits(setup.limits),
          capacity(setup.blocks * setup.block_size) {}

    Sequence& add(std::vector<TokenId> prompt, int new_tokens, int priority = 0) {
        Sequence& sequence = make(next_, 0, std::move(prompt), new_tokens, priority);
        next_ += 1;
        scheduler.enqueue(sequence);
        return sequence;
    }
    Sequence& add(int prompt_tokens, int new_tokens, int priority = 0) {
        std::vector<TokenId> prompt(static_cast<size_t>(prompt_tokens));
        std::iota(prompt.begin(), prompt.end(), TokenId(1000 * next_));
        return add(std::move(prompt), new_tokens, priority);
    }

    /// Another sample of a sequence that has read its prompt, and no more.
    Sequence& fork(Sequence& parent) {
        samples_ += 1;
        Sequence& child = make(parent.request, samples_, parent.tokens, wanted_[&parent] - parent.length(),
                               parent.priority);
        child.arrival = parent.arrival;
        scheduler.fork(parent, child);
        return child;
    }

    /// One step; `at_prompt_end` is called for a sequence that has read its prompt for the first time.
    template <typename Callback>
    const StepPlan& step(Callback at_prompt_end) {
        const std::vector<Sequence*> ran = scheduler.running();
        const StepPlan& plan = scheduler.plan();
        check(plan);
        if (!plan.preemptions.empty())
            for (const Sequence* sequence : scheduler.running())
                if (std::ranges::find(ran, sequence) == ran.end())
                    throw Error("a sequence joins while another one has to give way");
        device.carry_out(plan);
        std::vector<Sequence*> due;
        for (const StepPlan::Part& part : plan.parts)
            if (part.catches_up())
                due.push_back(part.sequence);
        scheduler.complete();
        for (size_t i = 0, count = due.size(); i < count; ++i)
            if (due[i]->length() == due[i]->prompt_tokens && due[i]->sample == 0)
                at_prompt_end(*due[i], due);
        for (Sequence* sequence : due) {
            sequence->tokens.push_back(next_token(*sequence));
            if (sequence->length() >= std::min(wanted_[sequence], capacity)) {
                scheduler.remove(*sequence);
                ended.push_back(sequence);
            }
        }
        check_integrity();
        return plan;
    }
    const StepPlan& step() {
        return step([](Sequence&, std::vector<Sequence*>&) {});
    }

    void run(int max_steps = 100'000) {
        while (!scheduler.idle()) {
            if (max_steps-- == 0)
                throw Error("the sequences do not come to an end");
            step();
        }
        for (const auto& sequence : sequences)
            if (sequence->state != SequenceState::ended)
                throw Error("request " + std::to_string(sequence->request) + " is lost");
    }

    void check_integrity() const {
        std::vector<const BlockTable*> tables;
        size_t swapped = 0;
        for (const auto& sequence : sequences) {
            tables.push_back(&sequence->table);
            swapped += sequence->swap_slots.size();
        }
        store.check_integrity(tables);
        if (int(swapped) != swap.used())
            throw Error("swap slots are lost");
        check_unused_slots();
    }

    /// Slot by slot, in whichever table the block stands.
    void check_unused_slots() const {
        std::set<int32_t> held;
        std::set<std::pair<int32_t, int>> written;
        for (const auto& sequence : sequences) {
            held.insert(sequence->table.blocks.begin(), sequence->table.blocks.end());
            for (int i = 0; !sequence->table.blocks.empty() && i < sequence->computed; ++i)
                written.emplace(sequence->table.blocks[size_t(i / store.block_size())],
                                i % store.block_size());
        }
        const int all = int(held.size()) * store.block_size();
        if (int(held.size()) != store.pool().held() || all - int(written.size()) != scheduler.unused_slots())
            throw Error(std::to_string(scheduler.unused_slots()) + " unused slots, but " +
                        std::to_string(written.size()) + " of " + std::to_string(all) + " are written");
    }

    /// What every plan must keep to.
    void check(const StepPlan& plan) const {
        const auto must = [](bool holds, const char* what) {
            if (!holds)
                throw Error(what);
        };
        int tokens = 0;
        std::set<const Sequence*> seen;
        for (const StepPlan::Part& part : plan.parts) {
            must(seen.insert(part.sequence).second, "a sequence stands in the plan twice");
            must(part.sequence->state == SequenceState::running, "a sequence in the plan does not run");
            must(part.tokens > 0 && part.first == part.sequence->computed,
                 "a part does not continue its sequence");
            must(part.first + part.tokens <= part.sequence->length(),
                 "a part passes the end of its sequence");
            must(limits.max_chunk == 0 || part.tokens <= limits.max_chunk, "a chunk is too large");
            tokens += part.tokens;
        }
        must(tokens == plan.tokens && tokens <= limits.max_step_tokens, "the budget is exceeded");
        must(int(scheduler.running().size()) <= limits.max_sequences, "too many sequences run");
        must(!plan.parts.empty() || scheduler.idle(), "nothing runs although something could");
        must(plan.swap_outs.empty() || plan.swap_ins.empty(), "blocks go and come in one step");
        const int left = limits.max_step_tokens - tokens;
        for (const Sequence* sequence : scheduler.running()) {
            if (left == 0 || seen.contains(sequence))
                continue;
            const int chunk =
                std::min({sequence->deficit(), left, limits.max_chunk > 0 ? limits.max_chunk : left});
            // One more for a copy of a shared block; and sources of copies were not available while it was
            // planned.
            const int missing =
                store.blocks_for(sequence->computed + chunk) - int(sequence->table.blocks.size()) + 1;
            must(missing > store.pool().available() - int(plan.copies.size()),
                 "a sequence gets nothing although tokens and blocks are left");
        }
    }

    BlockStore store;
    std::unique_ptr<kernels::Backend> backend =
        kernels::make_backend(kernels::BackendKind::reference, 1); ///< of the swap space
    HostSwap swap;
    Scheduler scheduler;
    ScheduledDevice device;
    SchedulerLimits limits;
    int capacity;
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Sequence*> ended;

private:
    Sequence& make(RequestId request, int sample, std::vector<TokenId> tokens, int new_tokens, int priority) {
        Sequence& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
        sequence.request = sequence.table.request = sequence.arrival = request;
        sequence.sample = sample;
        sequence.priority = priority;
        sequence.prompt_tokens = int32_t(tokens.size());
        sequence.tokens = std::move(tokens);
        wanted_[&sequence] = sequence.length() + new_tokens;
        return sequence;
    }
    /// Samples of a request go different ways after their first token.
    TokenId next_token(const Sequence& sequence) const {
        return TokenId(sequence.tokens.back() % 3 + sequence.sample % 2);
    }

    RequestId next_ = 1;
    int samples_ = 0;
    std::map<const Sequence*, int> wanted_;
};

} // namespace orrery::test
