// The vocabulary of a model as it stands in its file: everything that a tokenizer is made of.
#pragma once

#include "engine/text/tokenizer.h"

#include <optional>
#include <string>
#include <vector>

namespace orrery {

enum class TokenizerModel : uint8_t {
    byte_bpe,      ///< byte-level BPE with ranked merges
    sentencepiece, ///< SentencePiece BPE with scores
};

/// A plain struct, so that any file format can fill it in. A Tokenizer trusts nothing in it.
struct Vocabulary {
    std::string source; ///< the file, for messages
    TokenizerModel model = TokenizerModel::byte_bpe;
    std::string pre_tokenizer; ///< byte-level BPE: a name that PreTokenizer knows
    std::vector<std::string> tokens;
    std::vector<TokenKind> kinds;    ///< one for each token
    std::vector<float> scores;       ///< SentencePiece: one for each token, higher is merged first
    std::vector<std::string> merges; ///< byte-level BPE: "left right", first is merged first
    std::optional<TokenId> bos, eos, eot, eom, unknown;
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix =
        false; ///< SentencePiece: text begins with a space, and so does text after a special token
    bool ignore_merges =
        false; ///< byte-level BPE: a word that is a token is that token, whatever the merges say
};

/// Throws Error where the vocabulary is inconsistent: no token at all, lists of different lengths, ids that
/// name no token, scores that are no numbers.
std::shared_ptr<const Tokenizer> make_tokenizer(Vocabulary vocabulary);

} // namespace orrery
