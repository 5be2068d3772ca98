#include "engine/schedule/scheduler.h"

#include "engine/reserve_more.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace orrery {

/// Where a sequence stands in the order of arrivals. A priority moves it by a fixed number of places: so the
/// order never changes while a sequence waits, and yet none is overtaken without end.
int64_t Scheduler::Before::place(const Sequence& sequence) const {
    const int64_t lead = policy == SchedulerPolicy::priority ? int64_t{sequence.priority} : 0;
    return int64_t(sequence.arrival) - lead * arrivals_per_priority;
}

bool Scheduler::Before::operator()(const Sequence* a, const Sequence* b) const {
    // Two requests may have the same place; of these the earlier one goes first.
    const auto key = [this](const Sequence& s) { return std::tuple(place(s), s.arrival, s.sample); };
    return key(*a) < key(*b);
}

Scheduler::Scheduler(BlockStore& store, HostSwap& swap, SchedulerPolicy policy, PreemptionMode preemption,
                     const SchedulerLimits& limits)
    : store_(store),
      swap_(swap),
      before_{policy},
      preemption_(preemption),
      limits_(limits),
      waiting_(before_) {
    store_.set_swap(&swap_);
}

void Scheduler::enqueue(Sequence& sequence) {
    sequence.state = SequenceState::waiting;
    sequence.passed_over = 0;
    waiting_.insert(&sequence);
}

const StepPlan& Scheduler::plan() {
    plan_.clear();
    copies_.clear();
    budget_ = limits_.max_step_tokens;

    // What was passed over, the longest first; answers, which need one token each; prompts, which share what
    // is left.
    const auto is_answer = [](const Sequence& s) { return s.deficit() == 1; };
    for (int steps = longest_wait_; steps > 0; --steps) {
        serve([&](const Sequence& s) { return is_answer(s) && s.passed_over == steps; });
        if (prompts_passed_over_ == steps)
            serve_prompts();
    }
    serve(is_answer);

    // No sequence joins a step in which another one is preempted: they would only preempt each other in
    // turns. Nor does one in a step in which another one found no blocks: those are promised, see admit().
    if (plan_.preemptions.empty())
        admit_waiting();
    serve(is_answer);
    serve_prompts();

    close_plan();
    return plan_;
}

/// Nothing is added any more: counts the sequences that the budget passed over, and releases what was held
/// for the plan alone.
void Scheduler::close_plan() {
    longest_wait_ = 0;
    bool prompts_wait = false, prompts_go_on = false;
    for (Sequence* sequence : running_) {
        const bool is_prompt = sequence->deficit() > 1;
        prompts_wait |= is_prompt && !sequence->planned;
        prompts_go_on |= is_prompt && sequence->planned;
        sequence->passed_over = is_prompt || sequence->planned || budget_ > 0 ? 0 : sequence->passed_over + 1;
        longest_wait_ = std::max(longest_wait_, sequence->passed_over);
        sequence->planned = false;
    }
    prompts_passed_over_ = prompts_wait && !prompts_go_on && budget_ == 0 ? prompts_passed_over_ + 1 : 0;
    longest_wait_ = std::max(longest_wait_, prompts_passed_over_);
    reserve_more(plan_.copies, copies_.size());
    for (const Copy& copy : copies_)
        plan_.copies.push_back({copy.from, copy.sequence->table.blocks[size_t(copy.index)]});
    let_go_of_sources();
    plan_.swap_outs.assign(swap_.pending().begin(), swap_.pending().end());
    for (const StepPlan::Part& part : plan_.parts) {
        plan_.tokens += part.tokens;
        plan_.saved_tokens += std::exchange(part.sequence->saved_tokens, 0);
    }
}

/// The copies of this step need their sources no longer.
void Scheduler::let_go_of_sources() noexcept {
    for (const Copy& copy : copies_) {
        store_.unpin(copy.from);
        if (copy.replaces)
            store_.event(BlockEventKind::freed, copy.from, copy.sequence->request);
    }
    copies_.clear();
}

/// How many tokens the sequence gets, as far as the budget goes.
int Scheduler::chunk(const Sequence& sequence) const {
    const int most = limits_.max_chunk > 0 ? std::min(limits_.max_chunk, budget_) : budget_;
    return std::min(sequence.deficit(), most);
}

/// Gives tokens to those running sequences that are chosen and have none yet in this step, in policy order.
template <typename Choice>
void Scheduler::serve(Choice choice) {
    // Victims stand behind `i`, so that the loop is not disturbed.
    for (size_t i = 0; i < running_.size() && budget_ > 0; ++i)
        if (!running_[i]->planned && choice(*running_[i]))
            serve(*running_[i], budget_);
}

void Scheduler::serve(Sequence& sequence, int limit) {
    if (!sequence.begun)
        begin(sequence);
    const int tokens = std::min(chunk(sequence), limit);
    if (make_room(sequence, tokens))
        give_tokens(sequence, tokens);
}

/// Divides the budget that is left among the prompts.
void Scheduler::serve_prompts() {
    prompts_.clear();
    for (Sequence* sequence : running_)
        if (!sequence->planned && sequence->deficit() > 1)
            prompts_.push_back(sequence);
    if (prompts_.empty() || budget_ == 0)
        return;
    Sequence& first = *prompts_.front();
    const auto others = std::partition(prompts_.begin() + 1, prompts_.end(),
                                       [&](Sequence* other) { return shares_budget(first, *other); });
    std::sort(prompts_.begin() + 1, others, [this](const Sequence* a, const Sequence* b) {
        return std::pair(a->deficit(), before_(b, a)) < std::pair(b->deficit(), before_(a, b));
    });
    std::sort(others, prompts_.end(), before_);
    int64_t wanted = 0;
    for (auto sharing = prompts_.begin() + 1; sharing != others; ++sharing)
        wanted += chunk(**sharing);
    serve(first, budget_ - int(std::min<int64_t>(budget_ / 2, wanted)));
    for (size_t i = 1; i < prompts_.size() && budget_ > 0; ++i)
        if (prompts_[i]->state == SequenceState::running) // else it has been preempted meanwhile
            serve(*prompts_[i], budget_);
}

/// Whether a prompt has a share of the budget beside the first one.
bool Scheduler::shares_budget(Sequence& first, Sequence& other) {
    if (before_.policy == SchedulerPolicy::priority && other.priority < first.priority)
        return false;
    // A block that the first one is about to compute will be found in the cache.
    const int next = first.computed / store_.block_size();
    return other.begun || other.computed / store_.block_size() > next ||
           !store_.same_prefix(first.table, first.tokens, other.table, other.tokens, next);
}

/// The sequence is about to get its first tokens: what was computed since it joined is found now, and of the
/// block after it as much as agrees is copied.
void Scheduler::begin(Sequence& sequence) {
    const BlockStore::Match& match = store_.match(sequence.table, sequence.tokens, sequence.length() - 1);
    store_.adopt(sequence.table, match);
    const int whole = int(sequence.table.blocks.size());
    sequence.computed = whole * store_.block_size();
    const int unheld = match.partial.block >= 0 && store_.pool().users(match.partial.block) == 0;
    // The source must not be taken for something else in this step, and nothing may lack blocks for it.
    if (match.partial.tokens > 0 &&
        store_.pool().available() - unheld >= promised_blocks() + int(running_.size()) - 1) {
        reserve_more(copies_);
        store_.pin(match.partial.block);
        copies_.push_back({&sequence, whole, match.partial.block, false});
        store_.extend(sequence.table, sequence.computed + match.partial.tokens);
        sequence.computed += match.partial.tokens;
    }
    sequence.saved_tokens = sequence.computed;
    if (!sequence.has_run)
        sequence.cached_tokens = sequence.computed;
    reserve_lists(sequence);
    sequence.begun = true;
}

void Scheduler::give_tokens(Sequence& sequence, int tokens) {
    plan_.parts.push_back({&sequence, sequence.computed, tokens});
    sequence.planned = true;
    budget_ -= tokens;
}

/// Sees to it that the next `tokens` tokens have slots to be written to, by preemption where it must.
/// Returns false where blocks lack and all others stand before this sequence: it keeps what it has and tries
/// again in the next step.
bool Scheduler::make_room(Sequence& sequence, int tokens) {
    while (!try_room(sequence, tokens)) {
        Sequence& last = *running_.back();
        if (&last == &sequence)
            return false;
        if (last.begun)
            preempt(last, sequence);
        else
            send_back(last);
    }
    return true;
}

bool Scheduler::try_room(Sequence& sequence, int tokens) {
    // A block that is begun and shared (after a fork) is copied before it is written to.
    const int begun = sequence.computed / store_.block_size();
    const bool copy =
        sequence.computed % store_.block_size() != 0 && is_shared(sequence.table.blocks[size_t(begun)]);
    const int missing = store_.blocks_for(sequence.computed + tokens) - int(sequence.table.blocks.size());
    if (std::max(missing, 0) + copy > store_.pool().available())
        return false;
    reserve_more(copies_);
    if (copy)
        copies_.push_back({&sequence, begun, store_.replace(sequence.table, begun), true});
    return store_.extend(sequence.table, sequence.computed + tokens);
}

/// Whether other sequences would see what is written to a block. Those that take a copy of it in this step
/// will not.
bool Scheduler::is_shared(int32_t block) const {
    const auto leaves = [block](const Copy& copy) { return copy.replaces && copy.from == block; };
    const int users = store_.pool().users(block);
    return users > 1 && users - std::ranges::count_if(copies_, leaves) > 1;
}

/// The victim leaves the batch and waits, with its place in the order kept.
void Scheduler::preempt(Sequence& victim, const Sequence& beneficiary) {
    assert(&victim == running_.back());
    withdraw(victim);
    // A block that is begun and shared is not kept: others will write to it.
    const int begun = victim.computed / store_.block_size();
    if (victim.computed % store_.block_size() != 0 &&
        store_.pool().users(victim.table.blocks[size_t(begun)]) > 1)
        victim.computed = begun * store_.block_size();
    const std::span<const int32_t> blocks(victim.table.blocks.data(),
                                          size_t(store_.blocks_for(victim.computed)));
    const bool swap = swap_is_better(victim) && swap_.hold(blocks, victim.request, victim.swap_slots);
    swapped_ += swap;
    plan_.preemptions.push_back({victim.request, beneficiary.request,
                                 swap ? PreemptionKind::swap : PreemptionKind::recompute,
                                 int32_t(victim.table.blocks.size())});
    victim.swapped_tokens = swap ? victim.computed : 0;
    store_.release(victim.table);
    victim.computed = 0;
    victim.preemptions += 1;
    victim.begun = false;
    victim.saved_tokens = 0;
    running_.pop_back();
    enqueue(victim);
}

/// Takes a sequence's part out of the plan again.
void Scheduler::withdraw(Sequence& victim) {
    if (!victim.planned)
        return;
    victim.planned = false;
    const auto part = std::ranges::find(plan_.parts, &victim, &StepPlan::Part::sequence);
    budget_ += part->tokens;
    plan_.parts.erase(part);
    for (size_t i = copies_.size(); i-- > 0;)
        if (copies_[i].sequence == &victim) {
            if (copies_[i].replaces) {
                store_.undo_replace(victim.table, copies_[i].index, copies_[i].from);
            } else {
                store_.unpin(copies_[i].from);
                victim.computed =
                    copies_[i].index * store_.block_size(); // what was to be copied is not there
            }
            copies_.erase(copies_.begin() + std::ptrdiff_t(i));
        }
}

/// A sequence that has joined and not begun goes back to the queue. It has computed nothing.
void Scheduler::send_back(Sequence& sequence) {
    assert(!sequence.begun && !sequence.planned);
    store_.release(sequence.table);
    sequence.computed = 0;
    std::erase(running_, &sequence);
    enqueue(sequence);
}

/// What both ways may lose are the blocks that no other sequence holds: to be copied twice, or to be computed
/// again. Blocks of others that the prefix index knows are found again either way.
bool Scheduler::swap_is_better(const Sequence& victim) const {
    const int blocks = store_.blocks_for(victim.computed);
    int own = 0, tokens = victim.computed;
    for (int i = 0; i < blocks; ++i) {
        const int32_t block = victim.table.blocks[size_t(i)];
        const bool shared = store_.pool().users(block) > 1;
        own += !shared;
        tokens -= shared && store_.prefix_cache() ? store_.block_size() : 0;
    }
    if (preemption_ == PreemptionMode::recompute || tokens <= 0)
        return false;
    return preemption_ == PreemptionMode::swap ||
           own * costs_.ns_per_swapped_block < tokens * costs_.ns_per_token;
}

/// Blocks that a sequence still lacks for the tokens it has.
int Scheduler::missing_blocks(const Sequence& sequence) const {
    return store_.blocks_for(sequence.length()) - int(sequence.table.blocks.size());
}

/// Blocks that the running sequences have not taken yet, but will need for the tokens they have.
int Scheduler::promised_blocks() const {
    int promised = 0;
    for (const Sequence* sequence : running_)
        promised += missing_blocks(*sequence);
    return promised;
}

void Scheduler::admit_waiting() {
    if (waiting_.empty())
        return;
    int promised = promised_blocks();
    while (int(running_.size()) < limits_.max_sequences && !waiting_.empty()) {
        Sequence& sequence = **waiting_.begin();
        if (!admit(sequence, promised))
            return;
        promised += missing_blocks(sequence);
    }
}

/// Lets a waiting sequence join if the blocks for all of its present tokens are there. So that it does not
/// push out others at once, one block is left for each sequence that runs already.
bool Scheduler::admit(Sequence& sequence, int promised) {
    const bool swapped = !sequence.swap_slots.empty();
    if (swapped && budget_ == 0)
        return false; // what comes back is used in the same step
    // At least one token is computed, or there would be no logits to draw from.
    const int limit = swapped ? sequence.swapped_tokens : sequence.length() - 1;
    const BlockStore::Match& match = store_.match(sequence.table, sequence.tokens, limit);
    const int whole = int(match.blocks.size());
    int available = store_.pool().available() - match.unheld;
    int needed = store_.blocks_for(sequence.length()) - whole;
    if (swapped) {
        needed -= find_swapped(sequence, whole);
        for (const int32_t block : restored_)
            available -= block >= 0 && store_.pool().users(block) == 0;
    }
    if (available - promised - int(running_.size()) - needed < 0)
        return false;

    store_.adopt(sequence.table, match);
    sequence.computed = whole * store_.block_size();
    waiting_.erase(waiting_.begin());
    start_running(sequence);
    if (swapped)
        swap_in(sequence, whole);
    return true;
}

/// Finds the blocks of a swapped sequence after the first `whole` ones. Returns how many of them are still on
/// the device. Where the content of one is lost, it and those after it will be computed again.
int Scheduler::find_swapped(Sequence& sequence, int whole) {
    restored_.clear();
    int found = 0;
    for (size_t i = size_t(whole); i < sequence.swap_slots.size(); ++i) {
        const int32_t slot = sequence.swap_slots[i];
        const int32_t block = swap_.block_of(slot);
        if (block < 0 && !swap_.on_host(slot))
            break;
        restored_.push_back(block);
        found += block >= 0;
    }
    return found;
}

/// Brings back what was swapped out and is not on the device any more, and goes on where the sequence
/// stopped.
void Scheduler::swap_in(Sequence& sequence, int whole) {
    store_.restore(sequence.table, restored_);
    for (size_t i = 0; i < restored_.size(); ++i) {
        if (restored_[i] >= 0)
            continue;
        const int32_t block = sequence.table.blocks[size_t(whole) + i];
        plan_.swap_ins.push_back({block, sequence.swap_slots[size_t(whole) + i]});
        store_.event(BlockEventKind::swapped_in, block, sequence.request);
    }
    sequence.computed =
        std::min(sequence.swapped_tokens, int(sequence.table.blocks.size()) * store_.block_size());
    forget_swapped(sequence);
    sequence.begun = true;
    serve(sequence, std::max(1, budget_ / 2));
}

void Scheduler::start_running(Sequence& sequence) {
    sequence.state = SequenceState::running;
    running_.insert(std::ranges::upper_bound(running_, &sequence, before_), &sequence);
}

/// So that a step allocates nothing; only very long answers grow on the way.
void Scheduler::reserve_lists(Sequence& sequence) {
    if (sequence.has_run)
        return;
    const int most = std::min(sequence.max_length, sequence.length() + 4096);
    sequence.tokens.reserve(size_t(most));
    sequence.table.blocks.reserve(size_t(store_.blocks_for(most)));
    sequence.table.chain.reserve(size_t(store_.blocks_for(most)) + 1);
    sequence.has_run = true;
}

int Scheduler::joined() const {
    return int(std::ranges::count(running_, false, &Sequence::begun));
}

void Scheduler::complete() {
    swap_.copied();
    for (const StepPlan::Part& part : plan_.parts) {
        Sequence& sequence = *part.sequence;
        sequence.computed = part.first + part.tokens;
        sequence.max_computed = std::max(sequence.max_computed, sequence.computed);
        store_.fill(sequence.table, sequence.tokens, sequence.computed);
    }
}

int Scheduler::unused_slots() const {
    const size_t size = size_t(store_.block_size());
    size_t unused = 0;
    for (auto place = running_.begin(); place != running_.end(); ++place) {
        const std::vector<int32_t>& blocks = (*place)->table.blocks;
        const size_t written = size_t((*place)->computed);
        for (size_t i = written / size; i < blocks.size(); ++i) {
            // A block that is begun is shared only between a fork and its next token: it stands at the same
            // place in all tables, written to the same slot, and counts with the first of them.
            const auto names_it = [&](const Sequence* other) {
                return i < other->table.blocks.size() && other->table.blocks[i] == blocks[i];
            };
            if (store_.pool().users(blocks[i]) == 1 || std::none_of(running_.begin(), place, names_it))
                unused += size - (std::max(written, i * size) - i * size);
        }
    }
    return int(unused);
}

void Scheduler::fork(Sequence& parent, Sequence& child) {
    // What has not begun leaves its place to a sample whose prompt has been read.
    if (int(running_.size()) >= limits_.max_sequences) {
        const auto last = std::ranges::find(running_.rbegin(), running_.rend(), false, &Sequence::begun);
        if (last == running_.rend())
            return enqueue(child);
        send_back(**last);
    }
    store_.fork(parent.table, child.table);
    child.computed = child.max_computed = parent.computed;
    child.cached_tokens = parent.computed;
    reserve_lists(child);
    child.begun = true;
    start_running(child);
}

void Scheduler::remove(Sequence& sequence) noexcept {
    // A plan that failed may have left it between the two lists, holding blocks and slots at once.
    if (sequence.state == SequenceState::running)
        std::erase(running_, &sequence);
    else if (sequence.state == SequenceState::waiting)
        waiting_.erase(&sequence);
    store_.release(sequence.table);
    forget_swapped(sequence);
    sequence.state = SequenceState::ended;
}

void Scheduler::abandon() noexcept {
    let_go_of_sources();
    swap_.lost();
}

/// The slots are free for the next victim, which is in a later step at the earliest.
void Scheduler::forget_swapped(Sequence& sequence) noexcept {
    swapped_ -= !sequence.swap_slots.empty();
    swap_.release(sequence.swap_slots);
}

} // namespace orrery
