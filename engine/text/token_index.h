// Exact bytes → token id.
#pragma once

#include "engine/request.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace orrery {

/// A hash table with open addressing over strings that lie elsewhere and outlive it. Of two tokens with the
/// same bytes, the one inserted first is found.
class TokenIndex {
public:
    /// For tokens 0 … tokens − 1.
    explicit TokenIndex(size_t tokens);

    /// Returns whether the token is in, which it is not where another has the same bytes.
    bool insert(std::string_view bytes, TokenId token);

    /// The token with these bytes, or -1.
    TokenId find(std::string_view bytes) const;

private:
    // Eight bytes, so that a look at a neighbour costs no further cache line; the strings themselves are
    // looked at only where the whole hash agrees.
    struct Slot {
        uint32_t hash = 0;
        TokenId token = -1;
    };
    size_t slot(std::string_view bytes, uint32_t hash) const;

    std::vector<Slot> slots_;            // a power of two, at most half full
    std::vector<std::string_view> keys_; // by token
    size_t longest_ = 0;                 // bytes
};

} // namespace orrery
