#include "ui/worker.h"

#include <condition_variable>
#include <deque>
#include <thread>

namespace orrery::ui {

namespace {

/// Counts the threads whose worker has ended and that still run.
struct EndedThreads {
    std::mutex mutex;
    std::condition_variable changed;
    int count = 0;
};

EndedThreads& endedThreads() {
    // Never destroyed: a thread may outlive main().
    static auto* threads = new EndedThreads;
    return *threads;
}

} // namespace

struct Worker::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    bool ended = false;

    void run() {
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [this] { return ended || !jobs.empty(); });
            if (jobs.empty())
                return;
            std::function<void()> job = std::move(jobs.front());
            jobs.pop_front();
            const bool dropped = ended;
            lock.unlock();
            if (!dropped)
                job();
            job = nullptr; // what it holds ends here, and without the lock
            lock.lock();
        }
    }
};

Worker::Worker() : shared_(std::make_shared<Shared>()) {
    std::thread([shared = shared_]() mutable {
        shared->run();
        shared.reset();
        EndedThreads& threads = endedThreads();
        {
            const std::lock_guard lock(threads.mutex);
            --threads.count;
        }
        threads.changed.notify_all();
    }).detach();
}

Worker::~Worker() {
    {
        const std::lock_guard lock(endedThreads().mutex);
        ++endedThreads().count;
    }
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->ended = true;
    }
    shared_->changed.notify_one();
}

void Worker::post(std::function<void()> job) {
    {
        const std::lock_guard lock(shared_->mutex);
        shared_->jobs.push_back(std::move(job));
    }
    shared_->changed.notify_one();
}

bool Worker::waitForEnded(std::chrono::milliseconds limit) {
    EndedThreads& threads = endedThreads();
    std::unique_lock lock(threads.mutex);
    return threads.changed.wait_for(lock, limit, [&threads] { return threads.count == 0; });
}

} // namespace orrery::ui
