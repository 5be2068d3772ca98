// Exact bytes → token id.
#pragma once

#include "engine/request.h"

#include <string_view>
#include <vector>

namespace orrery {

/// A hash table with open addressing over strings that lie elsewhere and outlive it. Of two tokens with the
/// same bytes, the one inserted first is found.
class TokenIndex {
public:
    explicit TokenIndex(size_t capacity);

    /// Returns whether the token is in, which it is not where another has the same bytes.
    bool insert(std::string_view bytes, TokenId token);

    /// The token with these bytes, or -1.
    TokenId find(std::string_view bytes) const;

    size_t longest() const { return longest_; } ///< bytes of the longest token

private:
    struct Slot {
        std::string_view bytes;
        TokenId token = -1;
    };
    size_t slot(std::string_view bytes) const;

    std::vector<Slot> slots_; // a power of two, at most half full
    size_t longest_ = 0;
};

} // namespace orrery
