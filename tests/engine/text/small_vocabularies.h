// Vocabularies and texts for tests: small ones made by hand, random ones, and real ones from the test data.
#pragma once

#include "engine/text/byte_pair.h"
#include "engine/text/utf8.h"
#include "engine/text/vocabulary.h"

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace orrery::test {

using Random = std::mt19937_64;

inline size_t below(Random& random, size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

inline TokenId add_token(Vocabulary& vocabulary, const std::string& name, TokenKind kind, float score = 0) {
    vocabulary.tokens.push_back(name);
    vocabulary.kinds.push_back(kind);
    if (vocabulary.model == TokenizerModel::sentencepiece)
        vocabulary.scores.push_back(score);
    return static_cast<TokenId>(vocabulary.tokens.size() - 1);
}

inline void add_merge(Vocabulary& vocabulary, const std::string& left, const std::string& right) {
    vocabulary.merges.push_back(left + " " + right);
    for (const std::string& token : vocabulary.tokens)
        if (token == left + right)
            return;
    add_token(vocabulary, left + right, TokenKind::normal);
}

/// A byte-level vocabulary with all 256 bytes: token b is byte b.
inline Vocabulary byte_vocabulary() {
    Vocabulary vocabulary;
    vocabulary.source = "a byte-level vocabulary";
    vocabulary.pre_tokenizer = "gpt-2";
    for (int b = 0; b < 256; ++b)
        add_token(vocabulary, byte_level_character(static_cast<uint8_t>(b)), TokenKind::normal);
    return vocabulary;
}

/// With random merges of tokens that are there already.
inline Vocabulary random_byte_vocabulary(Random& random, size_t merges, const std::string& alphabet) {
    Vocabulary vocabulary = byte_vocabulary();
    std::vector<std::string> parts;
    for (const char c : alphabet)
        parts.push_back(byte_level_character(static_cast<uint8_t>(c)));
    for (size_t i = 0; i < merges; ++i) {
        const std::string left = parts[below(random, parts.size())];
        const std::string right = parts[below(random, parts.size())];
        add_merge(vocabulary, left, right);
        parts.push_back(left + right);
    }
    return vocabulary;
}

/// A SentencePiece vocabulary: <unk>, <s>, </s>, 256 bytes, then the characters and random strings over them;
/// with `by_words`, as most models have it, none with a space after another character.
inline Vocabulary random_sentencepiece_vocabulary(Random& random, size_t pieces,
                                                  const std::vector<std::string>& characters,
                                                  bool by_words = false) {
    Vocabulary vocabulary;
    vocabulary.source = "a SentencePiece vocabulary";
    vocabulary.model = TokenizerModel::sentencepiece;
    vocabulary.add_space_prefix = true;
    vocabulary.add_bos = true;
    vocabulary.unknown = add_token(vocabulary, "<unk>", TokenKind::unknown);
    vocabulary.bos = add_token(vocabulary, "<s>", TokenKind::control);
    vocabulary.eos = add_token(vocabulary, "</s>", TokenKind::control);
    for (int b = 0; b < 256; ++b) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", b);
        add_token(vocabulary, name, TokenKind::byte);
    }
    std::vector<std::string> parts = characters;
    for (const std::string& character : characters)
        add_token(vocabulary, character, TokenKind::normal, -1e6f);
    for (size_t i = 0; i < pieces; ++i) {
        const std::string piece = parts[below(random, parts.size())] + parts[below(random, parts.size())];
        const size_t letter = piece.find_first_not_of("\xE2\x96\x81"); // the bytes of U+2581
        if (by_words && letter != std::string::npos && piece.find("▁", letter) != std::string::npos)
            continue;
        bool there = false;
        for (const std::string& token : vocabulary.tokens)
            there = there || token == piece;
        if (there)
            continue;
        parts.push_back(piece);
        // Few different scores, so that equal ones meet.
        add_token(vocabulary, piece, TokenKind::normal, -static_cast<float>(below(random, pieces)));
    }
    return vocabulary;
}

/// Text of many scripts, white space, digits and symbols; always valid UTF-8.
inline std::string random_text(Random& random, size_t characters) {
    static const std::vector<std::pair<char32_t, char32_t>> ranges = {
        {'a', 'z'},       {'a', 'z'},         {'A', 'Z'},         {'0', '9'},           {' ', ' '},
        {' ', ' '},       {'\t', '\r'},       {'!', '/'},         {':', '@'},           {0x80, 0xFF},
        {0x300, 0x36F},   {0x391, 0x3C9},     {0x410, 0x44F},     {0x5D0, 0x5EA},       {0x621, 0x64A},
        {0x660, 0x669},   {0x905, 0x94D},     {0x2000, 0x200D},   {0x2028, 0x202F},     {0x2160, 0x2188},
        {0x3000, 0x3002}, {0x3041, 0x30FF},   {0x4E00, 0x9FA5},   {0xAC00, 0xD7A3},     {0xFE00, 0xFE0F},
        {0xFF01, 0xFF5E}, {0x1F1E6, 0x1F1FF}, {0x1F300, 0x1F64F}, {0x10FFF0, 0x10FFFF}, {0, 0x1F}};
    std::string text;
    for (size_t i = 0; i < characters;) {
        const auto& [first, last] = ranges[below(random, ranges.size())];
        for (size_t run = below(random, 6) + 1; run > 0 && i < characters; --run, ++i)
            utf8::append(text, static_cast<char32_t>(first + below(random, last - first + 1)));
    }
    return text;
}

inline std::string random_bytes(Random& random, size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes)
        byte = static_cast<char>(below(random, 256));
    return bytes;
}

} // namespace orrery::test
