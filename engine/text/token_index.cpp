#include "engine/text/token_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace orrery {

TokenIndex::TokenIndex(size_t capacity) : slots_(std::bit_ceil(std::max<size_t>(2 * capacity, 2))) {}

size_t TokenIndex::slot(std::string_view bytes) const {
    const size_t mask = slots_.size() - 1;
    size_t i = std::hash<std::string_view>()(bytes) & mask;
    while (slots_[i].token >= 0 && slots_[i].bytes != bytes)
        i = (i + 1) & mask;
    return i;
}

bool TokenIndex::insert(std::string_view bytes, TokenId token) {
    Slot& place = slots_[slot(bytes)];
    if (place.token >= 0)
        return false;
    place = {bytes, token};
    longest_ = std::max(longest_, bytes.size());
    return true;
}

TokenId TokenIndex::find(std::string_view bytes) const {
    return bytes.size() > longest_ ? -1 : slots_[slot(bytes)].token;
}

} // namespace orrery
