// Text to tokens and back.
//
// Byte-level BPE (Radford et al. 2019) with the pre-tokenizer that the model names, and SentencePiece BPE
// (Kudo & Richardson 2018). Values are held against llama.cpp's tokenizer.
#pragma once

#include "engine/request.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// A piece of text, and whether the names of special tokens in it stand for these tokens. What a person
/// or a document wrote is never trusted: "<|im_end|>" in it is just ten letters.
struct TextPiece {
    std::string text;
    bool trusted = false;
};

enum class TokenKind : uint8_t { normal, unknown, control, user_defined, unused, byte };

class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    /// Tokens of a text. With `parse_special`, the names of special tokens become these tokens; with
    /// `add_special`, the beginning and end tokens that the model asks for are added.
    virtual std::vector<TokenId> encode(std::string_view text, bool parse_special,
                                        bool add_special) const = 0;

    /// Tokens of a rendered conversation: special tokens are recognised in trusted pieces alone, while the
    /// text around them is tokenized as one.
    virtual std::vector<TokenId> encode(const std::vector<TextPiece>& pieces, bool add_special) const = 0;

    /// The bytes that a token stands for; not always whole UTF-8 characters. Special tokens give their
    /// name with `keep_special` and nothing without.
    virtual std::string bytes(TokenId token, bool keep_special) const = 0;

    /// The text of a whole sequence (with SentencePiece's leading space removed where the model adds one);
    /// bytes that are no UTF-8 become U+FFFD.
    virtual std::string decode(const std::vector<TokenId>& tokens, bool keep_special) const = 0;

    virtual int size() const = 0;
    virtual TokenKind kind(TokenId token) const = 0;
    virtual std::string_view name(TokenId token) const = 0; ///< as it stands in the vocabulary
    virtual std::optional<TokenId> find(std::string_view name) const = 0;

    virtual std::optional<TokenId> bos() const = 0;
    virtual std::optional<TokenId> eos() const = 0;
    virtual bool adds_bos() const = 0;
    /// Every token that ends an answer (a model may have several: end of text, of turn, of message).
    virtual const std::vector<TokenId>& end_tokens() const = 0;
    /// Whether decoding drops a space at the very beginning.
    virtual bool strips_leading_space() const = 0;
};

} // namespace orrery
