#include "engine/cache/prefix_index.h"

#include "kernels/error.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace orrery {

namespace {
/// A parent with very many children (a system prompt) must not make lookups slow.
constexpr int siblings_looked_at = 32;
} // namespace

PrefixIndex::Table::Table(int blocks, Hash128 Entry::*key)
    // At most half full, so that probes stay short.
    : key_(key), mask_(std::bit_ceil(size_t(std::max(blocks, 1)) * 2) - 1), blocks_(mask_ + 1, -1) {}

size_t PrefixIndex::Table::locate(const std::vector<Entry>& entries, const Hash128& key) const {
    size_t slot = home(key);
    while (blocks_[slot] >= 0 && entries[size_t(blocks_[slot])].*key_ != key)
        slot = (slot + 1) & mask_;
    return slot;
}

void PrefixIndex::Table::clear(const std::vector<Entry>& entries, size_t slot) {
    size_t hole = slot;
    for (size_t at = (hole + 1) & mask_; blocks_[at] >= 0; at = (at + 1) & mask_) {
        // An entry may move into the hole unless its home lies behind the hole, cyclically.
        const size_t from_home = (at - home(entries[size_t(blocks_[at])].*key_)) & mask_;
        const size_t from_hole = (at - hole) & mask_;
        if (from_home >= from_hole) {
            blocks_[hole] = blocks_[at];
            hole = at;
        }
    }
    blocks_[hole] = -1;
}

int PrefixIndex::Table::used() const {
    return int(std::count_if(blocks_.begin(), blocks_.end(), [](int32_t block) { return block >= 0; }));
}

PrefixIndex::PrefixIndex(int blocks, int block_size)
    : block_size_(block_size),
      entries_(size_t(blocks)),
      tokens_(size_t(blocks) * size_t(block_size)),
      by_hash_(blocks, &Entry::hash),
      by_parent_(blocks, &Entry::parent) {}

int32_t PrefixIndex::find(const Hash128& hash, std::span<const TokenId> tokens) const {
    const int32_t block = by_hash_[by_hash_.locate(entries_, hash)];
    return block >= 0 && std::ranges::equal(tokens_of(block), tokens) ? block : -1;
}

PrefixIndex::Partial PrefixIndex::find_partial(const Hash128& parent, std::span<const TokenId> tokens) const {
    Partial best;
    int32_t child = by_parent_[by_parent_.locate(entries_, parent)];
    for (int i = 0; child >= 0 && i < siblings_looked_at; ++i, child = entries_[size_t(child)].older) {
        const auto own = tokens_of(child);
        const int agree = int(std::ranges::mismatch(own, tokens).in1 - own.begin());
        if (agree > best.tokens)
            best = {child, agree};
    }
    return best;
}

bool PrefixIndex::insert(int32_t block, const Hash128& parent, const Hash128& hash,
                         std::span<const TokenId> tokens) {
    Entry& entry = entries_[size_t(block)];
    assert(!entry.present && int(tokens.size()) == block_size_);
    const size_t slot = by_hash_.locate(entries_, hash);
    if (by_hash_[slot] >= 0)
        return false;

    entry = {hash, parent, -1, -1, true};
    std::ranges::copy(tokens, tokens_.begin() + std::ptrdiff_t(block) * block_size_);
    by_hash_.set(slot, block);
    const size_t family = by_parent_.locate(entries_, parent);
    if (const int32_t sibling = by_parent_[family]; sibling >= 0) {
        entry.older = sibling;
        entries_[size_t(sibling)].newer = block;
    }
    by_parent_.set(family, block);
    size_ += 1;
    return true;
}

void PrefixIndex::erase(int32_t block) {
    Entry& entry = entries_[size_t(block)];
    assert(entry.present);
    by_hash_.clear(entries_, by_hash_.locate(entries_, entry.hash));
    if (entry.older >= 0)
        entries_[size_t(entry.older)].newer = entry.newer;
    if (entry.newer >= 0) {
        entries_[size_t(entry.newer)].older = entry.older;
    } else {
        const size_t family = by_parent_.locate(entries_, entry.parent);
        if (entry.older >= 0)
            by_parent_.set(family, entry.older);
        else
            by_parent_.clear(entries_, family);
    }
    entry.present = false;
    size_ -= 1;
}

void PrefixIndex::check_integrity() const {
    const auto fail = [](const std::string& what) {
        throw Error("The prefix index is broken: " + what + ".");
    };
    int present = 0, families = 0, found_in_families = 0;
    for (int32_t block = 0; block < int32_t(entries_.size()); ++block) {
        const Entry& entry = entries_[size_t(block)];
        if (!entry.present)
            continue;
        present += 1;
        if (by_hash_[by_hash_.locate(entries_, entry.hash)] != block)
            fail("block " + std::to_string(block) + " is not found by its hash");
        if (entry.newer < 0) {
            families += 1;
            if (by_parent_[by_parent_.locate(entries_, entry.parent)] != block)
                fail("block " + std::to_string(block) + " is not found as its parent's newest child");
            for (int32_t child = block; child >= 0; child = entries_[size_t(child)].older) {
                if (!entries_[size_t(child)].present || entries_[size_t(child)].parent != entry.parent)
                    fail("block " + std::to_string(child) + " stands among the children of another parent");
                found_in_families += 1;
            }
        }
    }
    if (present != size_ || by_hash_.used() != size_ || found_in_families != size_ ||
        by_parent_.used() != families)
        fail(std::to_string(present) + " blocks are entered, " + std::to_string(size_) + " counted");
}

} // namespace orrery
