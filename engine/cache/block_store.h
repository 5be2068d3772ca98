// The paged cache's bookkeeping: pool, prefix index and block tables kept in agreement.
//
// Keys and values themselves lie on the device; here they are numbers. Every change to a block's state is
// recorded as an event for the step's report.
//
// A call that fails for want of memory has changed nothing; those that give blocks back cannot fail.
#pragma once

#include "engine/cache/block_pool.h"
#include "engine/cache/block_table.h"
#include "engine/cache/host_swap.h"
#include "engine/cache/prefix_index.h"
#include "engine/step_report.h"

namespace orrery {

class BlockStore {
public:
    BlockStore(int blocks, int block_size, bool prefix_cache);

    int block_size() const { return block_size_; }
    /// Blocks that hold so many tokens.
    int blocks_for(int tokens) const { return (tokens + block_size_ - 1) / block_size_; }
    const BlockPool& pool() const { return pool_; }

    /// What the cache already holds of a sequence's beginning.
    struct Match {
        std::vector<int32_t> blocks;  ///< whole blocks, in order
        int unheld = 0;               ///< how many of them no table names, and would no longer be available
        PrefixIndex::Partial partial; ///< after them, a block whose beginning can be copied
    };
    /// Looks up the longest prefix of `tokens` that is cached, at most `limit` tokens of it, after the whole
    /// blocks that `table` has already; it remembers the hashes. The result is valid until the next call.
    const Match& match(BlockTable& table, std::span<const TokenId> tokens, int limit);
    /// The table takes the whole blocks of the match.
    void adopt(BlockTable& table, const Match& match);
    /// Whether two sequences have the same tokens up to the end of a block, which could then be shared.
    bool same_prefix(BlockTable& a, std::span<const TokenId> a_tokens, BlockTable& b,
                     std::span<const TokenId> b_tokens, int block);

    /// Appends blocks until the table covers `tokens` tokens. Returns false, and changes nothing, where
    /// not enough are available.
    bool extend(BlockTable& table, int tokens);

    /// Appends blocks to the table: it shares those that are named, and takes fresh ones in the place of
    /// every -1. There must be enough.
    void restore(BlockTable& table, std::span<const int32_t> blocks);

    /// Another table that names the same blocks; a shared one is copied before it is written to.
    void fork(const BlockTable& from, BlockTable& to);
    /// Puts a fresh block in the place of a shared one. The table's claim on the old block stays with the
    /// caller, who releases it once the content has been copied (or takes it back by undo_replace).
    /// One block must be available.
    int32_t replace(BlockTable& table, int index) noexcept;
    void undo_replace(BlockTable& table, int index, int32_t old_block) noexcept;

    /// A claim on a block that no table names, so that its content stays until it has been copied.
    void pin(int32_t block) noexcept { pool_.share(block); }
    void unpin(int32_t block) noexcept { pool_.release(block); }

    /// Where the content of blocks goes that are taken while a preempted sequence holds it; null: it is lost.
    void set_swap(HostSwap* swap) { swap_ = swap; }
    bool prefix_cache() const { return prefix_cache_; }

    /// Tells that keys and values of the first `computed` of `tokens` are there: blocks that became full can
    /// be found from now on.
    void fill(BlockTable& table, std::span<const TokenId> tokens, int computed);

    /// Gives all blocks back, the last first.
    void release(BlockTable& table) noexcept;

    /// Where events go from now on, or nowhere; returns where they went. The report's list of them gets its
    /// full size at once; what is past that is counted in the report.
    StepReport* record(StepReport* report);
    void event(BlockEventKind kind, int32_t block, RequestId request) noexcept;

    /// Throws Error unless the pool, the index and these tables agree.
    void check_integrity(std::span<const BlockTable* const> tables) const;

private:
    int32_t take(RequestId request) noexcept;
    const Hash128& hash_of(BlockTable& table, std::span<const TokenId> tokens, int block);
    std::span<const TokenId> slice(std::span<const TokenId> tokens, int block) const {
        return tokens.subspan(size_t(block) * size_t(block_size_), size_t(block_size_));
    }

    int block_size_;
    bool prefix_cache_;
    HashKey key_;
    BlockPool pool_;
    PrefixIndex index_;
    Match match_;
    HostSwap* swap_ = nullptr;
    StepReport* report_ = nullptr;
};

} // namespace orrery
