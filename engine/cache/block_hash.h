// The hash that names a block's content: a keyed 128-bit hash over its parent's hash and its own tokens.
//
// SipHash-2-4 with 128-bit output (Aumasson & Bernstein 2012). It is a pseudo-random function: without
// the key, which every process draws anew, it is not possible to craft two prompts whose hashes meet. It is
// also quick: a block of 16 tokens is ten words, about 0.1 µs, so that the 2,000 blocks of a 32,000-token
// prompt take a fifth of a millisecond.
#pragma once

#include "engine/request.h"

#include <array>
#include <cstddef>
#include <span>

namespace orrery {

struct Hash128 {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Hash128&) const = default;
};

using HashKey = std::array<uint64_t, 2>;

/// A key from the system's random source.
HashKey random_hash_key();

/// SipHash-2-4-128 of some bytes.
Hash128 siphash128(const HashKey& key, std::span<const std::byte> bytes);

/// What a chain of blocks begins with; chains of different salts never meet.
Hash128 hash_root(const HashKey& key, uint64_t salt);

/// The hash of a block of tokens that follows the block `parent`.
Hash128 hash_block(const HashKey& key, const Hash128& parent, std::span<const TokenId> tokens);

} // namespace orrery
