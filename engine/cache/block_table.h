// Which blocks hold a sequence's keys and values: those of token i lie in blocks[i / block_size], at
// offset i % block_size. A plain value; BlockStore is what changes it.
#pragma once

#include "engine/cache/block_hash.h"

#include <vector>

namespace orrery {

struct BlockTable {
    RequestId request = 0; ///< whose it is, for reports
    uint64_t salt = 0;     ///< prefixes are shared within one salt
    std::vector<int32_t> blocks;
    int indexed = 0; ///< leading blocks that have been offered to the prefix index
    std::vector<Hash128>
        chain; ///< chain[i] names the sequence's first i blocks of tokens, as far as needed so far
};

} // namespace orrery
