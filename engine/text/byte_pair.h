// Byte-level byte-pair encoding of words.
//
// Source: Sennrich et al. 2016 (merges by rank), Radford et al. 2019 (on bytes).
#pragma once

#include "engine/text/known_words.h"
#include "engine/text/token_index.h"
#include "engine/text/vocabulary.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The bytes that a token of a byte-level vocabulary stands for. In the file each byte is written as one
/// printable character (GPT-2's table); a character outside of the table stands for itself. `*pure` says
/// whether there was none of these.
std::string bytes_from_byte_level(std::string_view name, bool* pure = nullptr);

/// How a byte is written in a byte-level vocabulary.
std::string byte_level_character(uint8_t byte);

class BytePairEncoder {
public:
    /// `names` are those of the vocabulary's tokens.
    BytePairEncoder(const Vocabulary& vocabulary, const TokenIndex& names);

    /// Memory that is used again from word to word; one for each thread.
    struct Scratch {
        struct Symbol {
            TokenId token;
            int32_t before, after; // neighbours; -1: none
        };
        struct Candidate {
            uint64_t order; // rank, then place
            TokenId left, right, merged;
        };
        std::vector<Symbol> symbols;
        std::vector<Candidate> queue;
        uint64_t queue_operations = 0; ///< pushes and pops so far: the work done
    };

    /// Appends the tokens of one word. A byte that no token stands for gives nothing, as in llama.cpp: what
    /// files name as the token of unknown text is often one that ends an answer. Takes O(n log n) for n
    /// bytes.
    void encode(std::string_view word, std::vector<TokenId>& out, Scratch& scratch) const;

private:
    struct Merge {
        uint64_t pair = ~uint64_t{0};
        uint32_t rank = 0;
        TokenId merged = -1;
    };
    static uint64_t pair_of(TokenId left, TokenId right);
    const Merge* find_merge(TokenId left, TokenId right) const;
    size_t merge_slot(uint64_t pair) const;
    void merge(std::string_view word, std::vector<TokenId>& out, Scratch& scratch) const;

    bool ignore_merges_;
    TokenId byte_tokens_[256];
    std::vector<std::string> bytes_; // of each token that a word can be
    TokenIndex words_;
    std::vector<Merge> merges_; // open addressing, a power of two, at most half full
    KnownWords known_;
};

} // namespace orrery
