// The blocks of the key/value cache, by number: how often each is held, which are free, which one to take
// next.
//
// A block is always in exactly one of three states:
//
//     held     in the table of at least one sequence; it counts how many
//     cached   in no table, but its content can still be found as a prefix
//     free     in no table, and without content
//
// free + cached + held = all, after every call (law 2). Free blocks are taken first; then the cached block
// whose last user left the longest ago. A sequence gives its blocks back from the last to the first, so that
// of one sequence the tail is given up before the beginning that others are likely to share.
//
// The lists are linked through arrays: every call is O(1) and nothing is allocated after the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery {

class BlockPool {
public:
    explicit BlockPool(int blocks);

    int total() const { return int(users_.size()); }
    int free() const { return free_.size; }
    int cached() const { return cached_.size; }
    int held() const { return total() - free() - cached(); }
    /// How many blocks can be taken.
    int available() const { return free() + cached(); }

    struct Taken {
        int32_t block = 0;
        bool had_content = false; ///< it was cached: its content is lost
    };
    /// A block with one user and no content. At least one must be available.
    Taken take();
    /// One user more. A block that was free has the content that was last written to it.
    void share(int32_t block);
    /// One user fewer; with none left, the block becomes cached where it has content, free where it has none.
    /// Returns whether none is left.
    bool release(int32_t block);

    /// Says that a held block's content can be found from now on.
    void set_content(int32_t block) { content_[size_t(block)] = true; }
    bool has_content(int32_t block) const { return content_[size_t(block)]; }
    int users(int32_t block) const { return users_[size_t(block)]; }

    /// Throws Error where the lists and counters contradict each other or `users`, [total]: how many tables
    /// name each block.
    void check_integrity(const std::vector<int32_t>& users) const;

private:
    struct List {
        int32_t first = -1;
        int32_t last = -1;
        int size = 0;
    };
    void push_back(List& list, int32_t block);
    void unlink(List& list, int32_t block);
    List& list_of(int32_t block) { return content_[size_t(block)] ? cached_ : free_; }

    std::vector<int32_t> users_;
    std::vector<uint8_t> content_;
    std::vector<int32_t> previous_, next_;
    List free_;
    List cached_; ///< least recently used first
};

} // namespace orrery
