#include "engine/platform/guarded_range.h"

#include "kernels/error.h"

#ifndef _WIN32
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

namespace orrery::platform {

/// Entries form a list that only grows, so that the handler can walk it at any time; those of ranges that are
/// gone are used again.
struct GuardedRange::Entry {
    std::atomic<uintptr_t> begin{0}; ///< 0: free
    std::atomic<uintptr_t> end{0};   ///< of the last page
    std::atomic<bool> damaged{false};
    Entry* next = nullptr;

    static std::atomic<Entry*> first;
    static std::mutex mutex; ///< of those who add and remove; the handler takes none

    static void install();
    static bool repair(uintptr_t address) noexcept;
    static void handle(int signal, siginfo_t* info, void* context);
};

std::atomic<GuardedRange::Entry*> GuardedRange::Entry::first{nullptr};
std::mutex GuardedRange::Entry::mutex;

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

struct sigaction previous;
uintptr_t page_bytes = 0;

} // namespace

/// Puts zeros from the page of an address to the end of its range. False where it lies in none.
bool GuardedRange::Entry::repair(uintptr_t address) noexcept {
    for (Entry* entry = first.load(std::memory_order_acquire); entry; entry = entry->next) {
        const uintptr_t begin = entry->begin.load(std::memory_order_acquire);
        const uintptr_t end = entry->end.load(std::memory_order_acquire);
        // An entry may be taken over by another range in between.
        if (begin == 0 || address < begin || address >= end ||
            entry->begin.load(std::memory_order_acquire) != begin)
            continue;
        entry->damaged.store(true, std::memory_order_release);
        const uintptr_t page = address / page_bytes * page_bytes;
        return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

void GuardedRange::Entry::handle(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    // BUS_ADRERR: there is nothing at the address. Others tell of broken memory, or come from a program.
    const bool repaired = info->si_code == BUS_ADRERR && repair(reinterpret_cast<uintptr_t>(info->si_addr));
    errno = saved_errno;
    if (repaired)
        return;
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
        // Once more without a handler: this ends the process, with a core where the system keeps them.
        ::sigaction(signal, &previous, nullptr);
        if (info->si_code <= 0) // sent by a program: it would not come again by itself
            ::raise(signal);
    }
}

void GuardedRange::Entry::install() {
    if (page_bytes != 0)
        return;
    page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    // `previous` is complete before the handler can run.
    if (::sigaction(SIGBUS, nullptr, &previous) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0) {
        page_bytes = 0;
        throw Error(std::string("SIGBUS cannot be handled: ") + std::strerror(errno) + ".");
    }
}

GuardedRange::GuardedRange(void* begin, size_t bytes) {
    const std::lock_guard lock(Entry::mutex);
    Entry::install();
    entry_ = Entry::first.load(std::memory_order_relaxed);
    while (entry_ && entry_->begin.load(std::memory_order_relaxed) != 0)
        entry_ = entry_->next;
    const bool is_new = !entry_;
    if (is_new)
        entry_ = new Entry;
    const auto address = reinterpret_cast<uintptr_t>(begin);
    entry_->damaged.store(false, std::memory_order_relaxed);
    entry_->end.store((address + bytes + page_bytes - 1) / page_bytes * page_bytes,
                      std::memory_order_relaxed);
    entry_->begin.store(address, std::memory_order_release);
    if (is_new) {
        entry_->next = Entry::first.load(std::memory_order_relaxed);
        Entry::first.store(entry_, std::memory_order_release);
    }
}

GuardedRange::~GuardedRange() {
    const std::lock_guard lock(Entry::mutex);
    entry_->begin.store(0, std::memory_order_release);
}

bool GuardedRange::damaged() const noexcept {
    return entry_->damaged.load(std::memory_order_acquire);
}

} // namespace orrery::platform

#else

namespace orrery::platform {

GuardedRange::GuardedRange(void*, size_t) : entry_(nullptr) {}
GuardedRange::~GuardedRange() = default;

bool GuardedRange::damaged() const noexcept {
    return false;
}

} // namespace orrery::platform

#endif
