// Finds the names of special tokens in a text.
//
// Source: Aho & Corasick 1975 (all names in one pass), Myers 1983 (links that skip over a list).
#pragma once

#include "engine/text/vocabulary.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// A part of a text, in bytes: a special token, or ordinary text (token -1) between two of these.
struct TextFragment {
    size_t begin = 0;
    size_t end = 0;
    TokenId token = -1;
};

/// Bytes [begin, end) of a text.
struct TextRange {
    size_t begin = 0;
    size_t end = 0;
};

/// Longer names go first, wherever they stand in the text; among names of one length the leftmost. Control
/// and unknown tokens are found only where their whole name lies in a trusted range; user-defined tokens
/// everywhere. Of two tokens with one name, the first is found.
class SpecialTokens {
public:
    SpecialTokens(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds);

    /// Fragments in the order of the text, none of them empty, that cover it. `trusted` is sorted and its
    /// ranges do not touch one another. The text has fewer than 2³¹ bytes. Takes O(n log n) for n bytes,
    /// however the names nest; `*steps`, where it is given, grows by the steps taken.
    std::vector<TextFragment> split(std::string_view text, const std::vector<TextRange>& trusted,
                                    uint64_t* steps = nullptr) const;

private:
    /// A link to a shorter name, and one that skips over some.
    struct Links {
        uint32_t next = 0, skip = 0;
        uint32_t depth = 0; ///< names after this one
    };
    /// Each has the next shorter name that it ends with; index 0 stands for none and has no length.
    struct Name {
        TokenId token = -1;
        uint32_t length = 0; ///< bytes
        uint32_t user = 0;   ///< the longest user-defined name that it ends with; itself if it is one
        Links all;           ///< to all names
        Links users;         ///< of a user-defined name: to user-defined ones
    };
    /// A state of the automaton: the longest beginning of a name that the text ends with.
    struct State {
        uint32_t first_child = 0; ///< up to the next state's; their bytes ascend
        uint32_t fail = 0;        ///< the next shorter beginning of a name that it ends with
        uint32_t name = 0;        ///< the longest name that it ends with
    };
    /// The longest name that may end at a byte, in the order in which they are taken.
    struct Candidate {
        uint32_t end = 0;
        uint32_t trusted = 0; ///< bytes before `end` that are trusted
        uint32_t name = 0;
    };

    void add_states(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds,
                    const std::vector<TokenId>& sorted);
    void add_name(uint32_t state, TokenId token, size_t length, bool is_user_defined);
    Links links_to(uint32_t next, Links Name::*list) const;
    uint32_t child(uint32_t state, char byte) const;
    uint32_t follow(uint32_t state, char byte, uint64_t& steps) const;
    uint32_t first_within(size_t limit, uint32_t name, Links Name::*list, uint64_t& steps) const;
    uint32_t longest(uint32_t name, size_t trusted, size_t room, uint64_t& steps) const;
    std::vector<Candidate> candidates(std::string_view text, const std::vector<TextRange>& trusted,
                                      uint64_t& steps) const;

    std::vector<Name> names_;
    std::vector<State> states_; // breadth first from the root, and one more to end the last one's children
    std::string bytes_;         // by state: the one that leads there
    std::array<uint32_t, 256> from_root_{};
};

} // namespace orrery
