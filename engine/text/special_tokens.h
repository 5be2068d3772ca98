// Finds the names of special tokens in a text.
#pragma once

#include "engine/text/token_index.h"
#include "engine/text/vocabulary.h"

#include <cstdint>
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
/// everywhere.
class SpecialTokens {
public:
    /// Both lists outlive the object.
    SpecialTokens(const std::vector<std::string>& names, const std::vector<TokenKind>& kinds);

    /// Fragments in the order of the text, none of them empty, that cover it. `trusted` is sorted and its
    /// ranges do not touch one another.
    std::vector<TextFragment> split(std::string_view text, const std::vector<TextRange>& trusted) const;

private:
    bool may_begin(std::string_view text, size_t at) const;

    const std::vector<TokenKind>& kinds_;
    TokenIndex index_;
    std::vector<size_t> lengths_; // of the names, longest first, each once
    std::vector<bool> pairs_;     // [65536]: whether a name begins with these two bytes
};

} // namespace orrery
