// Work off the window's thread that the window's end never waits for.
//
// Some work cannot be interrupted: a tokenizer on a long text, a read from a slow disk, an engine's last
// step. Where its owner ends, it goes on alone: so a job holds all that it uses, and what it has to say goes
// through a Mailbox, which delivers nothing once the receiver has gone.
#pragma once

#include <QObject>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace orrery::ui {

/// One thread that does jobs in the order in which they were posted.
class Worker {
public:
    Worker();
    /// Returns at once. A job that runs goes on to its end; those that have not begun are dropped. Both
    /// happen on the worker's thread, as does the end of what they hold.
    ~Worker();

    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// A job must not throw.
    void post(std::function<void()> job);

    /// Waits until no thread of any worker that has ended runs any more; false: one still does after
    /// `limit`. main() must ask before it returns: the end of a program takes away what threads use.
    static bool waitForEnded(std::chrono::milliseconds limit);

private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

/// Brings calls from any thread to the thread of a QObject, as long as there is one. Copies are the same box.
class Mailbox {
public:
    explicit Mailbox(QObject* receiver) : shared_(std::make_shared<Shared>()) {
        shared_->receiver = receiver;
    }

    /// The receiver calls it before it ends. What is posted from now on is dropped.
    void close() {
        const std::lock_guard lock(shared_->mutex);
        shared_->receiver = nullptr;
    }

    /// Runs `call` from the receiver's event loop.
    template <typename Call>
    void post(Call call) const {
        const std::lock_guard lock(shared_->mutex);
        if (shared_->receiver)
            QMetaObject::invokeMethod(shared_->receiver, std::move(call), Qt::QueuedConnection);
    }

private:
    struct Shared {
        std::mutex mutex;
        QObject* receiver = nullptr;
    };
    std::shared_ptr<Shared> shared_;
};

} // namespace orrery::ui
