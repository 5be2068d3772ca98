#include "engine/model/read_vocabulary.h"

#include "engine/text/pre_tokenizer.h"
#include "kernels/error.h"

#include <limits>

namespace orrery {
namespace {

// The numbers that the file format gives to the kinds of tokens.
TokenKind kind_of(int64_t number, size_t token, const std::string& source) {
    switch (number) {
    case 0: // not said
    case 1:
        return TokenKind::normal;
    case 2:
        return TokenKind::unknown;
    case 3:
        return TokenKind::control;
    case 4:
        return TokenKind::user_defined;
    case 5:
        return TokenKind::unused;
    case 6:
        return TokenKind::byte;
    default:
        throw Error(source + ": the field 'tokenizer.ggml.token_type' gives token " + std::to_string(token) +
                    " the type " + std::to_string(number) + ", which does not exist");
    }
}

std::optional<TokenId> read_id(const GgufFile& file, const std::string& key, size_t tokens,
                               std::optional<TokenId> otherwise) {
    if (!file.find(key))
        return otherwise && static_cast<size_t>(*otherwise) < tokens ? otherwise : std::nullopt;
    const int64_t id = file.get_int(key);
    if (id == -1 || id == std::numeric_limits<uint32_t>::max()) // how some converters write 'none'
        return std::nullopt;
    if (id < 0 || static_cast<uint64_t>(id) >= tokens)
        throw Error(file.path().string() + ": the field '" + key + "' is " + std::to_string(id) +
                    ", but the vocabulary has " + std::to_string(tokens) + " tokens");
    return static_cast<TokenId>(id);
}

} // namespace

Vocabulary read_vocabulary(const GgufFile& file) {
    Vocabulary vocabulary;
    vocabulary.source = file.path().string();
    const std::string model = file.get_string("tokenizer.ggml.model");
    if (model == "gpt2")
        vocabulary.model = TokenizerModel::byte_bpe;
    else if (model == "llama")
        vocabulary.model = TokenizerModel::sentencepiece;
    else
        throw Error(vocabulary.source + ": the field 'tokenizer.ggml.model' is '" + model +
                    "'; the tokenizers that are known are 'gpt2' and 'llama'");

    vocabulary.tokens = file.get_strings("tokenizer.ggml.tokens");
    const size_t count = vocabulary.tokens.size();
    if (count == 0)
        throw Error(vocabulary.source + ": the field 'tokenizer.ggml.tokens' is missing or has no tokens");
    if (file.find("tokenizer.ggml.token_type")) {
        const std::vector<int64_t> kinds = file.get_ints("tokenizer.ggml.token_type");
        for (size_t i = 0; i < kinds.size(); ++i)
            vocabulary.kinds.push_back(kind_of(kinds[i], i, vocabulary.source));
    } else {
        vocabulary.kinds.assign(count, TokenKind::normal);
    }

    std::optional<TokenId> bos, eos, unknown;
    if (vocabulary.model == TokenizerModel::byte_bpe) {
        if (!file.find("tokenizer.ggml.merges"))
            throw Error(vocabulary.source + ": the field 'tokenizer.ggml.merges' is missing");
        vocabulary.merges = file.get_strings("tokenizer.ggml.merges");
        vocabulary.pre_tokenizer = file.get_string("tokenizer.ggml.pre", "");
        vocabulary.ignore_merges = PreTokenizer::ignores_merges(vocabulary.pre_tokenizer);
        vocabulary.add_bos = PreTokenizer::adds_bos(vocabulary.pre_tokenizer);
    } else {
        for (const double score : file.get_floats("tokenizer.ggml.scores"))
            vocabulary.scores.push_back(static_cast<float>(score));
        vocabulary.add_bos = true;
        vocabulary.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", true);
        unknown = 0; // the order in which SentencePiece writes them
        bos = 1;
        eos = 2;
    }
    vocabulary.bos = read_id(file, "tokenizer.ggml.bos_token_id", count, bos);
    vocabulary.eos = read_id(file, "tokenizer.ggml.eos_token_id", count, eos);
    vocabulary.eot = read_id(file, "tokenizer.ggml.eot_token_id", count, {});
    vocabulary.eom = read_id(file, "tokenizer.ggml.eom_token_id", count, {});
    vocabulary.unknown = read_id(file, "tokenizer.ggml.unknown_token_id", count, unknown);
    vocabulary.add_bos = file.get_bool("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
    vocabulary.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", false);
    return vocabulary;
}

std::shared_ptr<const Tokenizer> read_tokenizer(const GgufFile& file) {
    return make_tokenizer(read_vocabulary(file));
}

} // namespace orrery
