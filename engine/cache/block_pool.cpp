#include "engine/cache/block_pool.h"

#include "kernels/error.h"

#include <cassert>
#include <string>

namespace orrery {

BlockPool::BlockPool(int blocks)
    : users_(size_t(blocks), 0),
      content_(size_t(blocks), false),
      previous_(size_t(blocks), -1),
      next_(size_t(blocks), -1) {
    for (int32_t block = 0; block < blocks; ++block)
        push_back(free_, block);
}

BlockPool::Taken BlockPool::take() {
    assert(available() > 0);
    List& list = free_.size > 0 ? free_ : cached_;
    const Taken taken{list.first, &list == &cached_};
    unlink(list, taken.block);
    content_[size_t(taken.block)] = false;
    users_[size_t(taken.block)] = 1;
    return taken;
}

void BlockPool::share(int32_t block) {
    if (users_[size_t(block)]++ == 0)
        unlink(list_of(block), block);
}

bool BlockPool::release(int32_t block) {
    assert(users(block) > 0);
    if (--users_[size_t(block)] > 0)
        return false;
    push_back(list_of(block), block);
    return true;
}

void BlockPool::push_back(List& list, int32_t block) {
    previous_[size_t(block)] = list.last;
    next_[size_t(block)] = -1;
    (list.last < 0 ? list.first : next_[size_t(list.last)]) = block;
    list.last = block;
    list.size += 1;
}

void BlockPool::unlink(List& list, int32_t block) {
    const int32_t before = previous_[size_t(block)], after = next_[size_t(block)];
    (before < 0 ? list.first : next_[size_t(before)]) = after;
    (after < 0 ? list.last : previous_[size_t(after)]) = before;
    list.size -= 1;
}

void BlockPool::check_integrity(const std::vector<int32_t>& users) const {
    const auto fail = [](const std::string& what) { throw Error("The block pool is broken: " + what + "."); };
    int idle = 0;
    for (int32_t block = 0; block < total(); ++block) {
        if (users_[size_t(block)] != users[size_t(block)])
            fail("block " + std::to_string(block) + " counts " + std::to_string(users_[size_t(block)]) +
                 " users, but " + std::to_string(users[size_t(block)]) + " tables name it");
        idle += users_[size_t(block)] == 0;
    }
    std::vector<bool> seen(users_.size(), false);
    const auto walk = [&](const List& list, bool content, const char* name) {
        int count = 0;
        for (int32_t block = list.first, before = -1; block >= 0;
             before = block, block = next_[size_t(block)]) {
            const std::string which =
                "block " + std::to_string(block) + " in the list of " + name + " blocks ";
            if (seen[size_t(block)])
                fail(which + "stands in a list twice");
            seen[size_t(block)] = true;
            if (users_[size_t(block)] != 0)
                fail(which + "has users");
            if (bool(content_[size_t(block)]) != content)
                fail(which + (content ? "has no content" : "has content"));
            if (previous_[size_t(block)] != before)
                fail(which + "names a wrong neighbour");
            count += 1;
        }
        if (count != list.size)
            fail("the list of " + std::string(name) + " blocks holds " + std::to_string(count) +
                 " and counts " + std::to_string(list.size));
    };
    walk(free_, false, "free");
    walk(cached_, true, "cached");
    if (idle != available())
        fail(std::to_string(idle) + " blocks have no user, but " + std::to_string(available()) +
             " are free or cached");
}

} // namespace orrery
