#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace orrery::kernels::cpu {

namespace {

// A pause lasts about 40 ns on the processors in question, so a phase is awaited for some 40 µs before its
// waiter sleeps (a wake-up costs 5 to 50 µs), and the next program for some 200 µs: about as long as
// sampling takes between two steps.
constexpr int phase_spins = 1000;
constexpr int idle_spins = 5000;

inline void pause() {
    __builtin_ia32_pause();
}

} // namespace

ThreadPool::ThreadPool(int threads) {
    const int count = std::max(1, threads);
    for (int i = 0; i < count; ++i) // one more than there are workers
        slots_.push_back(std::make_unique<Slot>());
    workers_.reserve(static_cast<size_t>(count));
    try {
        for (int i = 1; i < count; ++i)
            workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {
        // The system gives no more threads: those that are there do all the work.
    }
}

ThreadPool::~ThreadPool() {
    stopping_.store(true);
    bell_.fetch_add(1);
    bell_.notify_all();
    for (std::thread& worker : workers_)
        worker.join();
}

void ThreadPool::wait_until_done(std::atomic<int64_t>& done, int64_t items) {
    int64_t seen = done.load(std::memory_order_acquire);
    for (int spin = 0; seen < items; seen = done.load(std::memory_order_acquire)) {
        if (++spin < phase_spins)
            pause();
        else
            done.wait(seen, std::memory_order_acquire);
    }
}

void ThreadPool::walk(Slot& slot, int thread, const std::function<void(size_t)>& after_phase) {
    for (size_t p = 0; p < slot.phases.size(); ++p) {
        const Phase& phase = slot.phases[p];
        Progress& progress = slot.progress[p];
        while (progress.next.load(std::memory_order_relaxed) < phase.items) {
            const int64_t first = progress.next.fetch_add(phase.chunk, std::memory_order_relaxed);
            if (first >= phase.items)
                break;
            const int64_t last = std::min(first + phase.chunk, phase.items);
            phase.run(phase.job, first, last, thread);
            const int64_t share = last - first;
            if (progress.done.fetch_add(share, std::memory_order_acq_rel) + share == phase.items)
                progress.done.notify_all();
        }
        wait_until_done(progress.done, phase.items);
        if (after_phase)
            after_phase(p);
    }
}

void ThreadPool::work(int thread) {
    const std::function<void(size_t)> no_report;
    uint64_t last_program = nothing;
    for (;;) {
        const uint32_t rung = bell_.load();
        if (stopping_.load())
            return;
        const uint64_t program = current_.load();
        if (program != nothing && program != last_program) {
            // Enter first and look again after: run() refills a slot only while it is empty, and a
            // worker that came too late sees that another program (or none) is current and leaves.
            Slot& slot = *slots_[(program - 1) % slots_.size()];
            slot.inside.fetch_add(1);
            if (current_.load() == program) {
                walk(slot, thread, no_report);
                last_program = program;
            }
            slot.inside.fetch_sub(1);
            continue;
        }
        for (int spin = 0; spin < idle_spins && bell_.load(std::memory_order_relaxed) == rung; ++spin)
            pause();
        bell_.wait(rung);
    }
}

void ThreadPool::grow(size_t phases) {
    if (phases <= capacity_)
        return;
    const size_t capacity = phases + phases / 2;
    for (const auto& slot : slots_) {
        while (slot->inside.load() != 0) // the last program has ended: a worker in there is on its way out
            pause();
        slot->phases.reserve(capacity);
        slot->progress = std::make_unique<Progress[]>(capacity);
    }
    capacity_ = capacity;
}

void ThreadPool::run(std::span<const Phase> phases, const std::function<void(size_t)>& after_phase) {
    if (phases.empty())
        return;
    const std::lock_guard lock(running_);
    grow(phases.size());
    // Each worker is inside of one slot at most, so one of the slots is free or about to be.
    size_t index = 0;
    while (slots_[index]->inside.load() != 0)
        index = (index + 1) % slots_.size();
    Slot& slot = *slots_[index];
    slot.phases.assign(phases.begin(), phases.end());
    for (size_t p = 0; p < slot.phases.size(); ++p) {
        slot.progress[p].next.store(0, std::memory_order_relaxed);
        slot.progress[p].done.store(0, std::memory_order_relaxed);
    }
    if (!workers_.empty()) {
        current_.store(++epoch_ * slots_.size() + index + 1);
        bell_.fetch_add(1);
        bell_.notify_all();
    }
    walk(slot, 0, after_phase);
    current_.store(nothing);
}

} // namespace orrery::kernels::cpu
