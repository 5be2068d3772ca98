#include "engine/text/tokenizer.h"

#include "engine/text/byte_pair.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/sentence_piece.h"
#include "engine/text/special_names.h"
#include "engine/text/special_tokens.h"
#include "engine/text/utf8.h"
#include "engine/text/vocabulary.h"
#include "kernels/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery {
namespace {

// Symbols are linked by 32-bit places; an escaped space takes three bytes.
constexpr size_t max_text_bytes = std::numeric_limits<int32_t>::max() / 3 - 1;

Vocabulary checked(Vocabulary vocabulary) {
    const size_t count = vocabulary.tokens.size();
    const auto demand = [&](bool holds, const std::string& what) {
        if (!holds)
            throw Error(vocabulary.source + ": " + what);
    };
    const auto demand_id = [&](std::optional<TokenId> id, const char* what) {
        demand(!id || (*id >= 0 && static_cast<size_t>(*id) < count),
               std::string("the token of ") + what + " is " + std::to_string(id.value_or(0)) +
                   ", but the vocabulary has " + std::to_string(count) + " tokens");
    };
    demand(count > 0, "the vocabulary has no tokens");
    demand(count <= static_cast<size_t>(std::numeric_limits<TokenId>::max()),
           "the vocabulary has " + std::to_string(count) + " tokens, more than can be numbered");
    demand(vocabulary.kinds.size() == count, "the vocabulary has " + std::to_string(count) +
                                                 " tokens but types for " +
                                                 std::to_string(vocabulary.kinds.size()));
    if (vocabulary.model == TokenizerModel::sentencepiece) {
        demand(vocabulary.scores.size() == count, "the vocabulary has " + std::to_string(count) +
                                                      " tokens but scores for " +
                                                      std::to_string(vocabulary.scores.size()));
        for (size_t i = 0; i < count; ++i)
            demand(!std::isnan(vocabulary.scores[i]),
                   "the score of token " + std::to_string(i) + " is not a number");
    }
    demand_id(vocabulary.bos, "beginning");
    demand_id(vocabulary.eos, "end");
    demand_id(vocabulary.eot, "end of turn");
    demand_id(vocabulary.eom, "end of message");
    demand_id(vocabulary.unknown, "unknown text");
    correct_kinds(vocabulary);
    return vocabulary;
}

class VocabularyTokenizer final : public Tokenizer {
public:
    explicit VocabularyTokenizer(Vocabulary vocabulary);

    std::vector<TokenId> encode(std::string_view text, bool parse_special, bool add_special) const override;
    std::vector<TokenId> encode(const std::vector<TextPiece>& pieces, bool add_special) const override;
    std::string bytes(TokenId token, bool keep_special) const override;
    std::string decode(const std::vector<TokenId>& tokens, bool keep_special) const override;

    int size() const override { return static_cast<int>(vocabulary_.tokens.size()); }
    TokenKind kind(TokenId token) const override {
        return has(token) ? vocabulary_.kinds[token] : TokenKind::unknown;
    }
    std::string_view name(TokenId token) const override {
        return has(token) ? std::string_view(vocabulary_.tokens[token]) : std::string_view();
    }
    std::optional<TokenId> find(std::string_view name) const override {
        const TokenId token = names_.find(name);
        return token < 0 ? std::nullopt : std::optional(token);
    }
    std::optional<TokenId> bos() const override { return vocabulary_.bos; }
    std::optional<TokenId> eos() const override { return vocabulary_.eos; }
    bool adds_bos() const override { return vocabulary_.add_bos && vocabulary_.bos; }
    const std::vector<TokenId>& end_tokens() const override { return end_tokens_; }
    bool strips_leading_space() const override { return vocabulary_.add_space_prefix && sentence_piece_; }

private:
    bool has(TokenId token) const { return token >= 0 && token < size(); }
    std::vector<TokenId> encode(std::string_view text, const std::vector<TextRange>& trusted,
                                bool add_special) const;
    void encode_words(std::string_view text, std::vector<TokenId>& out,
                      BytePairEncoder::Scratch& scratch) const;
    void find_end_tokens();

    Vocabulary vocabulary_;
    TokenIndex names_;
    SpecialTokens special_;
    // Byte-level BPE has the first two, SentencePiece the third.
    std::unique_ptr<PreTokenizer> pre_tokenizer_;
    std::unique_ptr<BytePairEncoder> byte_pair_;
    std::unique_ptr<SentencePieceEncoder> sentence_piece_;
    std::vector<TokenId> end_tokens_;
};

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary)
    : vocabulary_(checked(std::move(vocabulary))),
      names_(vocabulary_.tokens.size()),
      special_(vocabulary_.tokens, vocabulary_.kinds) {
    size_t repeated = 0;
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i)
        repeated += !names_.insert(vocabulary_.tokens[i], static_cast<TokenId>(i));
    if (repeated)
        spdlog::warn("{}: {} tokens have the name of another one; text never becomes these.",
                     vocabulary_.source, repeated);
    if (vocabulary_.model == TokenizerModel::byte_bpe) {
        pre_tokenizer_ = std::make_unique<PreTokenizer>(vocabulary_.pre_tokenizer);
        byte_pair_ = std::make_unique<BytePairEncoder>(vocabulary_, names_);
    } else {
        sentence_piece_ = std::make_unique<SentencePieceEncoder>(vocabulary_);
    }
    find_end_tokens();
}

void VocabularyTokenizer::find_end_tokens() {
    for (const auto& id : {vocabulary_.eos, vocabulary_.eot, vocabulary_.eom})
        if (id)
            end_tokens_.push_back(*id);
    for (const std::string_view name : end_names())
        if (const auto token = find(name); token && kind(*token) == TokenKind::control)
            end_tokens_.push_back(*token);
    std::sort(end_tokens_.begin(), end_tokens_.end());
    end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());

    // In the harmony format an answer is several messages (thinking, tool calls, the final one); <|end|> is
    // between them, and only <|return|> and <|call|> hand over.
    const auto is_control = [&](const char* name) {
        const auto token = find(name);
        return token && kind(*token) == TokenKind::control;
    };
    if (is_control("<|return|>") && is_control("<|call|>"))
        if (const auto end = find("<|end|>"); end && end != vocabulary_.eos)
            std::erase(end_tokens_, *end);
}

void VocabularyTokenizer::encode_words(std::string_view text, std::vector<TokenId>& out,
                                       BytePairEncoder::Scratch& scratch) const {
    std::vector<size_t> ends;
    pre_tokenizer_->split(text, ends);
    size_t begin = 0;
    for (const size_t end : ends) {
        byte_pair_->encode(text.substr(begin, end - begin), out, scratch);
        begin = end;
    }
}

std::vector<TokenId> VocabularyTokenizer::encode(std::string_view text, const std::vector<TextRange>& trusted,
                                                 bool add_special) const {
    if (text.size() > max_text_bytes)
        throw Error("A text of " + std::to_string(text.size()) +
                    " bytes is too long to be tokenized; at most " + std::to_string(max_text_bytes) +
                    " are possible");
    std::vector<TokenId> out;
    out.reserve(text.size() / 4 + 2);
    if (add_special && adds_bos())
        out.push_back(*vocabulary_.bos);
    BytePairEncoder::Scratch scratch;
    bool after_special = true;
    for (const TextFragment& fragment : special_.split(text, trusted)) {
        if (fragment.token >= 0) {
            out.push_back(fragment.token);
            after_special = true;
            continue;
        }
        const std::string_view part = text.substr(fragment.begin, fragment.end - fragment.begin);
        if (byte_pair_) {
            encode_words(part, out, scratch);
        } else {
            std::string escaped = escape_spaces(part);
            if (vocabulary_.add_space_prefix && after_special)
                escaped.insert(0, escape_spaces(" "));
            sentence_piece_->encode(escaped, out);
        }
        after_special = false;
    }
    if (add_special && vocabulary_.add_eos && vocabulary_.eos)
        out.push_back(*vocabulary_.eos);
    return out;
}

std::vector<TokenId> VocabularyTokenizer::encode(std::string_view text, bool parse_special,
                                                 bool add_special) const {
    std::vector<TextRange> trusted;
    if (parse_special)
        trusted.push_back({0, text.size()});
    return encode(text, trusted, add_special);
}

std::vector<TokenId> VocabularyTokenizer::encode(const std::vector<TextPiece>& pieces,
                                                 bool add_special) const {
    std::string text;
    std::vector<TextRange> trusted;
    for (const TextPiece& piece : pieces) {
        if (piece.text.empty())
            continue;
        const size_t begin = text.size();
        text += piece.text;
        if (!piece.trusted)
            continue;
        if (!trusted.empty() && trusted.back().end == begin)
            trusted.back().end = text.size();
        else
            trusted.push_back({begin, text.size()});
    }
    return encode(text, trusted, add_special);
}

std::string VocabularyTokenizer::bytes(TokenId token, bool keep_special) const {
    if (!has(token))
        return {};
    const std::string& name = vocabulary_.tokens[token];
    switch (vocabulary_.kinds[token]) {
    case TokenKind::control:
    case TokenKind::unknown:
        return keep_special ? name : std::string();
    case TokenKind::user_defined:
        return name;
    case TokenKind::byte:
        if (const int byte = byte_of_token(name); byte >= 0)
            return std::string(1, static_cast<char>(byte));
        [[fallthrough]];
    case TokenKind::normal:
    case TokenKind::unused:
        break;
    }
    return byte_pair_ ? bytes_from_byte_level(name) : unescape_spaces(name);
}

std::string VocabularyTokenizer::decode(const std::vector<TokenId>& tokens, bool keep_special) const {
    std::string all;
    for (const TokenId token : tokens)
        all += bytes(token, keep_special);
    std::string_view rest = all;
    if (strips_leading_space() && rest.starts_with(' '))
        rest.remove_prefix(1);
    std::string out;
    out.reserve(rest.size());
    utf8::append_repaired(out, rest, true);
    return out;
}

} // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(Vocabulary vocabulary) {
    return std::make_shared<const VocabularyTokenizer>(std::move(vocabulary));
}

} // namespace orrery
