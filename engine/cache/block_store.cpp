#include "engine/cache/block_store.h"

#include "engine/reserve_more.h"
#include "kernels/error.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace orrery {

namespace {
/// Enough for a step that starts and ends many sequences, and little enough for a ring of thousands of
/// reports.
constexpr size_t max_block_events = 1024;
} // namespace

BlockStore::BlockStore(int blocks, int block_size, bool prefix_cache)
    : block_size_(block_size),
      prefix_cache_(prefix_cache),
      key_(random_hash_key()),
      pool_(blocks),
      index_(prefix_cache ? blocks : 0, block_size) {}

StepReport* BlockStore::record(StepReport* report) {
    if (report)
        report->block_events.reserve(max_block_events);
    return std::exchange(report_, report);
}

void BlockStore::event(BlockEventKind kind, int32_t block, RequestId request) noexcept {
    if (!report_)
        return;
    // There is room for these: what changes blocks must not fail half-way for want of memory.
    if (report_->block_events.size() < report_->block_events.capacity())
        report_->block_events.push_back({kind, block, request});
    else
        report_->block_events_dropped += 1;
}

/// The hash that names the first `block` + 1 blocks of tokens.
const Hash128& BlockStore::hash_of(BlockTable& table, std::span<const TokenId> tokens, int block) {
    if (table.chain.empty())
        table.chain.push_back(hash_root(key_, table.salt));
    while (int(table.chain.size()) < block + 2) {
        const int next = int(table.chain.size()) - 1;
        table.chain.push_back(hash_block(key_, table.chain.back(), slice(tokens, next)));
    }
    return table.chain[size_t(block) + 1];
}

const BlockStore::Match& BlockStore::match(BlockTable& table, std::span<const TokenId> tokens, int limit) {
    match_.blocks.clear();
    match_.unheld = 0;
    match_.partial = {};
    if (!prefix_cache_)
        return match_;
    int block = int(table.blocks.size());
    for (; (block + 1) * block_size_ <= limit; ++block) {
        const int32_t found = index_.find(hash_of(table, tokens, block), slice(tokens, block));
        if (found < 0)
            break;
        match_.blocks.push_back(found);
        match_.unheld += pool_.users(found) == 0;
    }
    const int whole = block * block_size_;
    const int rest = std::min(limit - whole, block_size_);
    if (rest > 0) {
        hash_of(table, tokens, block - 1);
        match_.partial =
            index_.find_partial(table.chain[size_t(block)], tokens.subspan(size_t(whole), size_t(rest)));
    }
    return match_;
}

void BlockStore::adopt(BlockTable& table, const Match& match) {
    reserve_more(table.blocks, match.blocks.size());
    for (const int32_t block : match.blocks) {
        pool_.share(block);
        table.blocks.push_back(block);
        event(BlockEventKind::shared, block, table.request);
    }
    table.indexed = int(table.blocks.size());
}

bool BlockStore::same_prefix(BlockTable& a, std::span<const TokenId> a_tokens, BlockTable& b,
                             std::span<const TokenId> b_tokens, int block) {
    const size_t end = size_t(block + 1) * size_t(block_size_);
    return prefix_cache_ && a_tokens.size() >= end && b_tokens.size() >= end &&
           hash_of(a, a_tokens, block) == hash_of(b, b_tokens, block);
}

int32_t BlockStore::take(RequestId request) noexcept {
    const BlockPool::Taken taken = pool_.take();
    if (taken.had_content) {
        index_.erase(taken.block);
        event(BlockEventKind::evicted, taken.block, request);
    }
    if (const int32_t slot = swap_ ? swap_->evict(taken.block) : -1; slot >= 0)
        event(BlockEventKind::swapped_out, taken.block, swap_->owner(slot));
    event(BlockEventKind::allocated, taken.block, request);
    return taken.block;
}

bool BlockStore::extend(BlockTable& table, int tokens) {
    const int missing = blocks_for(tokens) - int(table.blocks.size());
    if (missing > pool_.available())
        return false;
    reserve_more(table.blocks, size_t(std::max(missing, 0)));
    for (int i = 0; i < missing; ++i)
        table.blocks.push_back(take(table.request));
    return true;
}

void BlockStore::restore(BlockTable& table, std::span<const int32_t> blocks) {
    reserve_more(table.blocks, blocks.size());
    for (const int32_t block : blocks) // all of them before one is taken
        if (block >= 0)
            pool_.share(block);
    for (const int32_t block : blocks) {
        if (block >= 0)
            event(BlockEventKind::shared, block, table.request);
        table.blocks.push_back(block >= 0 ? block : take(table.request));
    }
}

void BlockStore::fork(const BlockTable& from, BlockTable& to) {
    to.chain = from.chain;
    to.blocks = from.blocks;
    to.indexed = from.indexed;
    for (const int32_t block : to.blocks) {
        pool_.share(block);
        event(BlockEventKind::shared, block, to.request);
    }
}

int32_t BlockStore::replace(BlockTable& table, int index) noexcept {
    const int32_t old_block = table.blocks[size_t(index)];
    table.blocks[size_t(index)] = take(table.request);
    return old_block;
}

void BlockStore::undo_replace(BlockTable& table, int index, int32_t old_block) noexcept {
    const int32_t fresh = table.blocks[size_t(index)];
    table.blocks[size_t(index)] = old_block;
    pool_.release(fresh);
    event(BlockEventKind::freed, fresh, table.request);
}

void BlockStore::fill(BlockTable& table, std::span<const TokenId> tokens, int computed) {
    if (!prefix_cache_)
        return;
    for (; (table.indexed + 1) * block_size_ <= computed; ++table.indexed) {
        const int32_t block = table.blocks[size_t(table.indexed)];
        // A copy of what another block holds already is not entered: one of them is enough.
        const Hash128 hash = hash_of(table, tokens, table.indexed);
        if (!pool_.has_content(block) &&
            index_.insert(block, table.chain[size_t(table.indexed)], hash, slice(tokens, table.indexed))) {
            pool_.set_content(block);
            event(BlockEventKind::filled, block, table.request);
        }
    }
}

void BlockStore::release(BlockTable& table) noexcept {
    for (auto block = table.blocks.rbegin(); block != table.blocks.rend(); ++block) {
        pool_.release(*block);
        event(BlockEventKind::freed, *block, table.request);
    }
    table.blocks.clear();
    table.indexed = 0;
}

void BlockStore::check_integrity(std::span<const BlockTable* const> tables) const {
    std::vector<int32_t> users(size_t(pool_.total()), 0);
    for (const BlockTable* table : tables)
        for (const int32_t block : table->blocks)
            users[size_t(block)] += 1;
    pool_.check_integrity(users);
    index_.check_integrity();
    if (!prefix_cache_)
        return;
    for (int32_t block = 0; block < pool_.total(); ++block)
        if (pool_.has_content(block) != index_.contains(block))
            throw Error("The block cache is broken: block " + std::to_string(block) +
                        (pool_.has_content(block) ? " has content that the index does not know."
                                                  : " is in the index, but without content."));
}

} // namespace orrery
