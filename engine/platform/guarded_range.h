// Memory whose pages may vanish: reading them gives zeros instead of ending the process.
#pragma once

#include <cstddef>

namespace orrery::platform {

/// Guards the pages of a mapped file, for as long as the object lives, against SIGBUS (POSIX; there is
/// nothing to guard against on Windows). Where the system cannot bring a page, that page and those after it
/// up to the end become zeros: a file that was cut has lost all of them.
///
/// The first object installs the handler for the process. It only does what a signal handler may, on any
/// thread, and passes on what is not its own.
class GuardedRange {
public:
    /// `begin` is the beginning of a page. Throws std::bad_alloc, or Error where the handler cannot be
    /// installed.
    GuardedRange(void* begin, size_t bytes);
    ~GuardedRange();
    GuardedRange(const GuardedRange&) = delete;
    GuardedRange& operator=(const GuardedRange&) = delete;

    /// Whether pages have been replaced. Seen by the thread that read them, and by those it has synchronised
    /// with since.
    bool damaged() const noexcept;

private:
    struct Entry;
    Entry* entry_;
};

} // namespace orrery::platform
