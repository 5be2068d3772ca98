// Finds the block that holds the keys and values of given tokens after a given prefix.
//
// A full block is named by a chained hash of (its parent's hash, its tokens); the first block's parent is the
// hash of the request's salt. Equal hashes are not trusted: the tokens are compared too. Besides exact
// lookup, the index knows the children of every parent, so that a block which agrees in its first few tokens
// only can be found and copied: a hit counts in tokens, not in whole blocks.
//
// Everything lies in arrays whose size follows from the number of blocks; nothing is allocated after the
// constructor.
#pragma once

#include "engine/cache/block_hash.h"

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

class PrefixIndex {
public:
    PrefixIndex(int blocks, int block_size);

    /// The block of exactly these tokens, [block_size], or -1.
    int32_t find(const Hash128& hash, std::span<const TokenId> tokens) const;

    struct Partial {
        int32_t block = -1;
        int tokens = 0; ///< how many leading tokens agree
    };
    /// Among the children of `parent` that came last (up to 32 are looked at), the one that agrees with
    /// `tokens` the longest.
    Partial find_partial(const Hash128& parent, std::span<const TokenId> tokens) const;

    /// Enters a block. Returns false where the hash is taken already: the other block stays the one that is
    /// found.
    bool insert(int32_t block, const Hash128& parent, const Hash128& hash, std::span<const TokenId> tokens);

    /// Removes a block that is in the index.
    void erase(int32_t block);

    bool contains(int32_t block) const { return entries_[size_t(block)].present; }
    int size() const { return size_; }

    /// Throws Error where the tables contradict the entries.
    void check_integrity() const;

private:
    struct Entry {
        Hash128 hash;
        Hash128 parent;
        int32_t older = -1; ///< siblings: children of the same parent, the newest first
        int32_t newer = -1;
        bool present = false;
    };

    /// Open addressing with linear probing and no tombstones: slot → block, keyed by one of its hashes.
    class Table {
    public:
        Table(int blocks, Hash128 Entry::*key);
        /// The slot of the key, or the empty slot where it would stand.
        size_t locate(const std::vector<Entry>& entries, const Hash128& key) const;
        int32_t operator[](size_t slot) const { return blocks_[slot]; }
        void set(size_t slot, int32_t block) { blocks_[slot] = block; }
        /// Empties a slot and moves up the entries behind it that would no longer be found.
        void clear(const std::vector<Entry>& entries, size_t slot);
        int used() const;

    private:
        size_t home(const Hash128& key) const { return size_t(key.low) & mask_; }

        Hash128 Entry::*key_;
        size_t mask_;
        std::vector<int32_t> blocks_;
    };

    std::span<const TokenId> tokens_of(int32_t block) const {
        return {tokens_.data() + size_t(block) * size_t(block_size_), size_t(block_size_)};
    }

    int block_size_;
    int size_ = 0;
    std::vector<Entry> entries_;  ///< [blocks]
    std::vector<TokenId> tokens_; ///< [blocks, block_size]
    Table by_hash_;
    Table by_parent_; ///< each parent's newest child
};

} // namespace orrery
