// SentencePiece BPE: merges by the score of what they make, bytes for what has no token.
//
// Source: Kudo & Richardson 2018.
#pragma once

#include "engine/text/known_words.h"
#include "engine/text/token_index.h"
#include "engine/text/vocabulary.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// SentencePiece writes a space as U+2581.
std::string escape_spaces(std::string_view text);
std::string unescape_spaces(std::string_view text);

/// The byte that a token named <0xNN> stands for, or -1.
int byte_of_token(std::string_view name);

class SentencePieceEncoder {
public:
    /// The vocabulary outlives the object.
    explicit SentencePieceEncoder(const Vocabulary& vocabulary);

    /// Appends the tokens of a text whose spaces are escaped. A character that is no token gives the tokens
    /// of its bytes; a byte without one gives the unknown token or, without that, nothing. Control, unknown
    /// and byte tokens never come out of their names. Takes O(n log n) for n bytes.
    /// `*steps`, where it is given, grows by the pushes and pops of its queue.
    void encode(std::string_view text, std::vector<TokenId>& out, uint64_t* steps = nullptr) const;

private:
    struct Scratch;
    void merge(std::string_view text, std::vector<TokenId>& out, Scratch& scratch) const;

    const std::vector<float>& scores_;
    TokenId unknown_; // -1: none
    TokenId byte_tokens_[256];
    TokenIndex pieces_;
    // Whether every token has its spaces at the beginning. Then no merge reaches over the end of a word, and
    // each word can be merged by itself, with the same result.
    bool by_words_ = true;
    KnownWords known_;
};

} // namespace orrery
