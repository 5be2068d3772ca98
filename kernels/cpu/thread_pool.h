// Threads that walk one list of phases together.
//
// A phase is a number of independent items; the next phase starts when all items of the one before are
// done. Items are handed out by an atomic counter, and a phase waits for its items, never for a thread: a
// worker that wakes late, or whose core is taken by another process, joins at the phase that runs by then,
// and the other threads finish the program. What an item computes may therefore not depend on the thread that
// runs it; the thread's number is only for scratch memory.
//
// A waiting thread spins for some microseconds and then sleeps, so that a shared core goes to a thread that
// has work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace orrery::kernels::cpu {

/// One step of a program.
struct Phase {
    /// Runs the items [first, last) of `job` as thread number `thread`. Must not throw.
    void (*run)(const void* job, int64_t first, int64_t last, int thread) = nullptr;
    const void* job = nullptr; ///< stays valid until ThreadPool::run() returns
    int64_t items = 0;
    int64_t chunk = 1; ///< items handed out at once
};

/// The phase that calls body(first, last, thread). `body` stays valid until ThreadPool::run() returns.
template <class Body>
Phase make_phase(const Body& body, int64_t items, int64_t chunk) {
    return {[](const void* job, int64_t first, int64_t last, int thread) {
                (*static_cast<const Body*>(job))(first, last, thread);
            },
            &body, items, chunk > 1 ? chunk : 1};
}

class ThreadPool {
public:
    /// `threads` ≥ 1, the caller of run() included.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    /// Runs all phases in order; the calling thread is thread 0. `after_phase`, where given, is called by
    /// the calling thread with the index of each phase that has just ended.
    /// Several threads may call: their programs run one after the other, each on all threads.
    /// Takes memory only where `phases` are more than ever before.
    void run(std::span<const Phase> phases, const std::function<void(size_t)>& after_phase = {});

    /// Runs one phase: body(first, last, thread) for `items` items.
    template <class Body>
    void parallel(int64_t items, int64_t chunk, const Body& body) {
        const Phase phase = make_phase(body, items, chunk);
        if (items > 0)
            run({&phase, 1});
    }

private:
    struct alignas(64) Progress {
        std::atomic<int64_t> next{0}; ///< first item that has not been taken
        alignas(64) std::atomic<int64_t> done{0};
    };
    /// A copy of the program that runs. A worker may linger in one that has ended, so there are more slots
    /// than workers, and a slot is used again only when it is empty.
    struct Slot {
        std::vector<Phase> phases;
        std::unique_ptr<Progress[]> progress;
        std::atomic<int> inside{0};
    };

    void grow(size_t phases);
    void work(int thread);
    void walk(Slot& slot, int thread, const std::function<void(size_t)>& after_phase);
    static void wait_until_done(std::atomic<int64_t>& done, int64_t items);

    static constexpr uint64_t nothing = 0;

    std::vector<std::unique_ptr<Slot>> slots_;
    size_t capacity_ = 0; ///< phases that each slot has room for
    /// Which program runs: epoch · number of slots + slot + 1; `nothing` between programs. The epoch makes
    /// two programs in the same slot differ.
    alignas(64) std::atomic<uint64_t> current_{nothing};
    /// Counts starts and the stop: what idle workers sleep on.
    alignas(64) std::atomic<uint32_t> bell_{0};
    std::atomic<bool> stopping_{false};
    uint64_t epoch_ = 0;
    std::mutex running_; ///< held by the caller of run()
    std::vector<std::thread> workers_;
};

} // namespace orrery::kernels::cpu
