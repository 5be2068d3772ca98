#include "engine/text/special_tokens.h"

#include <algorithm>

namespace orrery {
namespace {

bool is_special(TokenKind kind) {
    return kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::user_defined;
}

} // namespace

SpecialTokens::SpecialTokens(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds)
    : names_(1) {
    std::vector<TokenId> sorted;
    for (size_t i = 0; i < names.size(); ++i)
        if (is_special(kinds[i]) && !names[i].empty())
            sorted.push_back(static_cast<TokenId>(i));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](TokenId a, TokenId b) { return names[size_t(a)] < names[size_t(b)]; });
    sorted.erase(std::unique(sorted.begin(), sorted.end(),
                             [&](TokenId a, TokenId b) { return names[size_t(a)] == names[size_t(b)]; }),
                 sorted.end());
    add_states(names, kinds, sorted);
}

/// Builds the automaton level by level. The names below a state are neighbours in sorted order.
void SpecialTokens::add_states(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds,
                               const std::vector<TokenId>& sorted) {
    struct Below {
        uint32_t parent;
        uint32_t begin, end; // in `sorted`
    };
    std::vector<Below> below = {{0, 0, static_cast<uint32_t>(sorted.size())}};
    const auto name_of = [&](uint32_t i) -> const std::string& { return names[size_t(sorted[i])]; };
    states_.resize(1);
    bytes_ = '\0';
    size_t depth = 0;
    for (uint32_t state = 0, level_end = 1; state < states_.size(); ++state) {
        if (state == level_end) {
            ++depth;
            level_end = static_cast<uint32_t>(states_.size());
        }
        auto [parent, begin, end] = below[state];
        uint64_t steps = 0;
        if (depth > 1)
            states_[state].fail = follow(states_[parent].fail, bytes_[state], steps);
        states_[state].name = states_[states_[state].fail].name;
        if (depth > 0 && name_of(begin).size() == depth) {
            const TokenId token = sorted[begin++];
            add_name(state, token, depth, kinds[size_t(token)] == TokenKind::user_defined);
        }
        states_[state].first_child = static_cast<uint32_t>(states_.size());
        while (begin < end) {
            const char byte = name_of(begin)[depth];
            const uint32_t first = begin;
            while (begin < end && name_of(begin)[depth] == byte)
                ++begin;
            if (state == 0)
                from_root_[static_cast<uint8_t>(byte)] = static_cast<uint32_t>(states_.size());
            states_.emplace_back();
            bytes_ += byte;
            below.push_back({state, first, begin});
        }
    }
    states_.push_back({static_cast<uint32_t>(states_.size()), 0, 0});
}

/// The name that a state spells out.
void SpecialTokens::add_name(uint32_t state, TokenId token, size_t length, bool is_user_defined) {
    const uint32_t shorter = states_[state].name;
    const auto index = static_cast<uint32_t>(names_.size());
    Name name;
    name.token = token;
    name.length = static_cast<uint32_t>(length);
    name.user = is_user_defined ? index : names_[shorter].user;
    name.all = links_to(shorter, &Name::all);
    if (is_user_defined)
        name.users = links_to(names_[shorter].user, &Name::users);
    names_.push_back(name);
    states_[state].name = index;
}

/// Skips of two equal lengths are joined, so that a list of n names is walked in O(log n).
SpecialTokens::Links SpecialTokens::links_to(uint32_t next, Links Name::*list) const {
    const Links& links = names_[next].*list;
    const Links& far = names_[links.skip].*list;
    const bool join = links.depth - far.depth == far.depth - (names_[far.skip].*list).depth;
    return {next, join && next != 0 ? far.skip : next, links.depth + 1};
}

/// The state that a byte leads to from another one but the root; 0: none.
uint32_t SpecialTokens::child(uint32_t state, char byte) const {
    const auto first = bytes_.begin() + states_[state].first_child;
    const auto last = bytes_.begin() + states_[state + 1].first_child;
    const auto at = std::lower_bound(
        first, last, byte, [](char a, char b) { return static_cast<uint8_t>(a) < static_cast<uint8_t>(b); });
    return at != last && *at == byte ? static_cast<uint32_t>(at - bytes_.begin()) : 0;
}

uint32_t SpecialTokens::follow(uint32_t state, char byte, uint64_t& steps) const {
    for (; state != 0; state = states_[state].fail) {
        ++steps;
        if (const uint32_t next = child(state, byte))
            return next;
    }
    ++steps;
    return from_root_[static_cast<uint8_t>(byte)];
}

/// The first of at most so many bytes, of a name and the shorter ones in its list.
uint32_t SpecialTokens::first_within(size_t limit, uint32_t name, Links Name::*list, uint64_t& steps) const {
    for (; names_[name].length > limit; ++steps) {
        const Links& links = names_[name].*list;
        name = names_[links.skip].length > limit ? links.skip : links.next;
    }
    return name;
}

/// The longest name that a text may end with which ends with `name`: of at most `room` bytes, of which the
/// last `trusted` ones are trusted.
uint32_t SpecialTokens::longest(uint32_t name, size_t trusted, size_t room, uint64_t& steps) const {
    const uint32_t any = first_within(std::min(trusted, room), name, &Name::all, steps);
    const uint32_t user = first_within(room, names_[name].user, &Name::users, steps);
    return names_[any].length >= names_[user].length ? any : user;
}

/// For each byte at which a name may end the longest of them.
std::vector<SpecialTokens::Candidate> SpecialTokens::candidates(std::string_view text,
                                                                const std::vector<TextRange>& trusted,
                                                                uint64_t& steps) const {
    std::vector<Candidate> found;
    auto range = trusted.begin();
    uint32_t state = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        state = follow(state, text[at], steps);
        if (states_[state].name == 0)
            continue;
        const size_t end = at + 1;
        while (range != trusted.end() && range->end < end)
            ++range;
        const size_t begin = range != trusted.end() ? std::min(range->begin, end) : end;
        if (const uint32_t name = longest(states_[state].name, end - begin, end, steps))
            found.push_back({static_cast<uint32_t>(end), static_cast<uint32_t>(end - begin), name});
    }
    return found;
}

std::vector<TextFragment> SpecialTokens::split(std::string_view text, const std::vector<TextRange>& trusted,
                                               uint64_t* steps) const {
    if (text.empty())
        return {};
    uint64_t uncounted = 0;
    uint64_t& counted = steps ? *steps : uncounted;
    std::vector<Candidate> queue = candidates(text, trusted, counted);
    if (queue.empty())
        return {{0, text.size(), -1}};

    const auto later = [this](const Candidate& a, const Candidate& b) {
        const uint32_t length = names_[a.name].length, other = names_[b.name].length;
        return length != other ? length < other : a.end > b.end;
    };
    std::make_heap(queue.begin(), queue.end(), later);
    std::vector<TextFragment> found;
    std::vector<uint32_t> taken(text.size()); // where the name that has this byte ends; 0: none has it
    while (!queue.empty()) {
        ++counted;
        std::pop_heap(queue.begin(), queue.end(), later);
        Candidate& best = queue.back();
        const size_t end = best.end, begin = end - names_[best.name].length;
        // A name that was taken before is at least as long, so it cannot lie strictly inside of this one.
        if (taken[end - 1]) {
            queue.pop_back();
        } else if (taken[begin]) {
            // Each time, less than half of the room is left: a candidate comes back O(log n) times.
            best.name = longest(best.name, best.trusted, end - taken[begin], counted);
            if (best.name)
                std::push_heap(queue.begin(), queue.end(), later);
            else
                queue.pop_back();
        } else {
            std::fill(taken.begin() + begin, taken.begin() + end, static_cast<uint32_t>(end));
            found.push_back({begin, end, names_[best.name].token});
            queue.pop_back();
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
