#include "engine/text/special_tokens.h"

#include <algorithm>
#include <functional>

namespace orrery {
namespace {

bool is_special(TokenKind kind) {
    return kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::user_defined;
}

size_t pair_of(char first, char second) {
    return static_cast<size_t>(static_cast<uint8_t>(first)) << 8 | static_cast<uint8_t>(second);
}

bool lies_in(const std::vector<TextRange>& ranges, size_t begin, size_t end) {
    auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                  [](size_t at, const TextRange& range) { return at < range.begin; });
    return after != ranges.begin() && end <= std::prev(after)->end;
}

} // namespace

SpecialTokens::SpecialTokens(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds)
    : kinds_(kinds), index_(names.size()), pairs_(size_t{1} << 16) {
    for (size_t i = 0; i < names.size(); ++i) {
        const std::string& name = names[i];
        if (!is_special(kinds[i]) || name.empty() || !index_.insert(name, static_cast<TokenId>(i)))
            continue;
        lengths_.push_back(name.size());
        if (name.size() > 1)
            pairs_[pair_of(name[0], name[1])] = true;
        else
            std::fill_n(pairs_.begin() + pair_of(name[0], 0), 256, true);
    }
    std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
    lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
}

bool SpecialTokens::may_begin(std::string_view text, size_t at) const {
    // Past the end counts as any byte: the last byte may itself be a name.
    if (at + 1 < text.size())
        return pairs_[pair_of(text[at], text[at + 1])];
    return lengths_.back() == 1;
}

std::vector<TextFragment> SpecialTokens::split(std::string_view text,
                                               const std::vector<TextRange>& trusted) const {
    if (text.empty())
        return {};
    std::vector<size_t> starts;
    if (!lengths_.empty())
        for (size_t at = 0; at < text.size(); ++at)
            if (may_begin(text, at))
                starts.push_back(at);
    if (starts.empty())
        return {{0, text.size(), -1}};

    // One pass for each length keeps the memory within the text's own size, however the names nest.
    std::vector<TextFragment> found;
    std::vector<bool> taken(text.size());
    for (const size_t length : lengths_) {
        for (const size_t begin : starts) {
            const size_t end = begin + length;
            if (end > text.size())
                break;
            // What is taken already is at least as long, so it cannot lie strictly inside.
            if (taken[begin] || taken[end - 1])
                continue;
            const TokenId token = index_.find(text.substr(begin, length));
            if (token < 0 || (kinds_[token] != TokenKind::user_defined && !lies_in(trusted, begin, end)))
                continue;
            std::fill(taken.begin() + begin, taken.begin() + end, true);
            found.push_back({begin, end, token});
        }
    }
    std::sort(found.begin(), found.end(),
              [](const TextFragment& a, const TextFragment& b) { return a.begin < b.begin; });

    std::vector<TextFragment> fragments;
    size_t at = 0;
    for (const TextFragment& special : found) {
        if (at < special.begin)
            fragments.push_back({at, special.begin, -1});
        fragments.push_back(special);
        at = special.end;
    }
    if (at < text.size())
        fragments.push_back({at, text.size(), -1});
    return fragments;
}

} // namespace orrery
