#include "engine/text/token_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace orrery {
namespace {

uint32_t hash_of(std::string_view bytes) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(bytes));
}

} // namespace

TokenIndex::TokenIndex(size_t tokens)
    : slots_(std::bit_ceil(std::max<size_t>(2 * tokens, 2))), keys_(tokens) {}

size_t TokenIndex::slot(std::string_view bytes, uint32_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    while (slots_[i].token >= 0 && (slots_[i].hash != hash || keys_[slots_[i].token] != bytes))
        i = (i + 1) & mask;
    return i;
}

bool TokenIndex::insert(std::string_view bytes, TokenId token) {
    const uint32_t hash = hash_of(bytes);
    Slot& place = slots_[slot(bytes, hash)];
    if (place.token >= 0)
        return false;
    place = {hash, token};
    keys_[token] = bytes;
    longest_ = std::max(longest_, bytes.size());
    return true;
}

TokenId TokenIndex::find(std::string_view bytes) const {
    return bytes.size() > longest_ ? -1 : slots_[slot(bytes, hash_of(bytes))].token;
}

} // namespace orrery
