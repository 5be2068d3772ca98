// Memory that runs out when a test wants it to: replaces operator new of the whole program. Include it in
// one source file of a test.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace orrery::test {

/// Allocations first … first + count − 1 (counted from 1, of those threads and times that are within) fail.
class FailingMemory {
public:
    void fail(int64_t first, int64_t count = 1) {
        first_ = first;
        count_ = count;
        failures_ = asked_ = 0;
    }
    void stop() { count_ = 0; }
    int64_t failures() const { return failures_; }

    /// The calling thread's allocations are under this object's control while the scope lasts.
    class Within {
    public:
        explicit Within(FailingMemory& memory) { control() = &memory; }
        ~Within() { control() = nullptr; }
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;
    };
    /// As Within, for good.
    static void take_over_thread(FailingMemory& memory) { control() = &memory; }

    /// Whether the allocation that is asked for now is to fail.
    static bool fails_now() {
        FailingMemory* const memory = control();
        if (!memory)
            return false;
        const int64_t number = ++memory->asked_;
        if (number < memory->first_ || number - memory->first_ >= memory->count_)
            return false;
        memory->failures_ += 1;
        return true;
    }

private:
    static FailingMemory*& control() {
        static thread_local FailingMemory* memory = nullptr;
        return memory;
    }

    std::atomic<int64_t> first_{0}, count_{0}, asked_{0}, failures_{0};
};

} // namespace orrery::test

// Arrays and the forms that do not throw come here by themselves.
void* operator new(size_t bytes) {
    void* const memory = orrery::test::FailingMemory::fails_now() ? nullptr : std::malloc(bytes ? bytes : 1);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
