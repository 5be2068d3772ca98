// fuzz_text: hostile vocabularies and texts through the tokenizer, the detokenizer and the stop strings.
//
//     fuzz_text [--count N] [--seed S]
//
// Each case makes a vocabulary, from sound ones to rubbish; it is refused with orrery::Error or has to keep
// what the headers promise for any text. What breaks a promise (or crashes, or wakes a sanitizer) ends the
// program with status 1 and the number of the case; `--seed S --only N` runs that case alone.
#include "engine/text/detokenizer.h"
#include "engine/text/sentence_piece.h"
#include "engine/text/stop_strings.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"
#include "engine/text/vocabulary.h"
#include "kernels/error.h"
#include "tests/engine/text/small_vocabularies.h"

#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace orrery;
using test::add_token;
using test::below;
using test::Random;
using Ids = std::vector<TokenId>;

void demand(bool holds, const char* promise) {
    if (!holds)
        throw std::logic_error(promise);
}

bool chance(Random& random, size_t one_in) {
    return below(random, one_in) == 0;
}

template <class List>
const auto& one_of(Random& random, const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(random, std::size(list))));
}

const std::vector<std::string> special_names = {
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "</s>", "<s>",    "<|", "|>",    "<|im", "<end_of_turn>",
    "<|end|>",    "<|return|>",   "<|call|>",      "<",    "<0x41>", "▁",  "▁▁<s>", "  ",   "\n\n"};

const std::vector<std::string> pre_tokenizers = {
    "gpt-2",       "smollm",     "default",    "falcon", "llama-bpe",   "qwen2",
    "qwen35",      "seed-coder", "bailingmoe", "tekken", "gpt-4o",      "deepseek-coder",
    "deepseek-v3", "bloom",      "viking",     "",       "no such name"};

std::string some_text(Random& random) {
    std::string text;
    for (size_t parts = below(random, 8); parts > 0; --parts) {
        switch (below(random, 5)) {
        case 0:
            text += test::random_bytes(random, below(random, 12));
            break;
        case 1:
            text += one_of(random, special_names);
            break;
        case 2:
            text += std::string(below(random, 40), "a \n\xE2.1"[below(random, 6)]);
            break;
        default:
            text += test::random_text(random, below(random, 30));
        }
    }
    // Lost, repeated and foreign bytes.
    for (size_t n = below(random, 4); n > 0 && !text.empty(); --n) {
        const size_t at = below(random, text.size());
        if (chance(random, 2))
            text.erase(at, 1 + below(random, 3));
        else
            text.insert(at, text, below(random, text.size()), below(random, 6));
    }
    return text;
}

// --- vocabularies

struct Case {
    Vocabulary vocabulary;
    bool every_byte = false; ///< every byte has its token, so that no text is lost
};

void add_special_tokens(Random& random, Vocabulary& vocabulary) {
    for (size_t n = below(random, 6); n > 0; --n)
        add_token(vocabulary, one_of(random, special_names),
                  chance(random, 3) ? TokenKind::user_defined : TokenKind::control);
}

Vocabulary rubbish(Random& random) {
    Vocabulary vocabulary;
    vocabulary.model = chance(random, 2) ? TokenizerModel::byte_bpe : TokenizerModel::sentencepiece;
    for (size_t n = below(random, 60); n > 0; --n) {
        std::string name;
        switch (below(random, 6)) {
        case 0:
            name = one_of(random, special_names);
            break;
        case 1:
            name = test::random_bytes(random, below(random, 5));
            break;
        case 2:
            name = byte_level_character(static_cast<uint8_t>(below(random, 256)));
            break;
        case 3:
            if (!vocabulary.tokens.empty())
                name = one_of(random, vocabulary.tokens) + one_of(random, vocabulary.tokens);
            break;
        case 4:
            name = "<0x" + std::string(1, "0123456789ABCDEFabcg"[below(random, 20)]) + "F>";
            break;
        default:
            name = test::random_text(random, 1 + below(random, 3));
        }
        const auto kind = static_cast<TokenKind>(chance(random, 3) ? below(random, 6) : 0);
        const float scores[] = {0, -1, 1e30f, -std::numeric_limits<float>::infinity(), static_cast<float>(n)};
        add_token(vocabulary, name.substr(0, 200), kind, one_of(random, scores));
    }
    for (size_t n = below(random, 60); n > 0 && !vocabulary.tokens.empty(); --n)
        vocabulary.merges.push_back(chance(random, 5) ? test::random_bytes(random, below(random, 6))
                                                      : one_of(random, vocabulary.tokens) + " " +
                                                            one_of(random, vocabulary.tokens));
    const auto some_id = [&]() -> std::optional<TokenId> {
        if (chance(random, 2))
            return std::nullopt;
        return static_cast<TokenId>(below(random, vocabulary.tokens.size() + 1)) - chance(random, 50);
    };
    vocabulary.bos = some_id();
    vocabulary.eos = some_id();
    vocabulary.eot = some_id();
    vocabulary.unknown = some_id();
    if (chance(random, 20))
        vocabulary.kinds.resize(below(random, 70), TokenKind::normal);
    if (chance(random, 20))
        vocabulary.scores.resize(below(random, 70), std::numeric_limits<float>::quiet_NaN());
    return vocabulary;
}

Case some_case(Random& random) {
    Case it;
    switch (below(random, 3)) {
    case 0:
        it.vocabulary = rubbish(random);
        break;
    case 1:
        it.vocabulary =
            test::random_byte_vocabulary(random, below(random, 100), "ab<|im_end>s \xE2\x96\x81\xFF");
        it.every_byte = true;
        break;
    default:
        it.vocabulary = test::random_sentencepiece_vocabulary(
            random, below(random, 60), {"a", "b", "<", "|", "s", ">", "/", "é", "字", "▁"},
            chance(random, 2));
        it.every_byte = true;
    }
    if (it.every_byte)
        add_special_tokens(random, it.vocabulary);
    it.vocabulary.pre_tokenizer = one_of(random, pre_tokenizers);
    it.vocabulary.add_bos = chance(random, 2);
    it.vocabulary.add_eos = chance(random, 4);
    it.vocabulary.add_space_prefix = chance(random, 2);
    it.vocabulary.ignore_merges = chance(random, 4);
    return it;
}

// --- promises

std::string bytes_of(const Tokenizer& tokenizer, const Ids& ids) {
    std::string bytes;
    for (const TokenId id : ids)
        bytes += tokenizer.bytes(id, true);
    return bytes;
}

void check_encode(Random& random, const Case& it, const Tokenizer& tokenizer, const std::string& text) {
    const Ids plain = tokenizer.encode(text, false, false);
    const Ids parsed = tokenizer.encode(text, true, false);
    for (const Ids* ids : {&plain, &parsed})
        for (const TokenId id : *ids)
            demand(id >= 0 && id < tokenizer.size(), "every id names a token");
    for (const TokenId id : plain)
        demand(tokenizer.kind(id) != TokenKind::control, "untrusted text never becomes a control token");
    demand(plain == tokenizer.encode(text, false, false), "the same text gives the same tokens again");
    demand(plain == tokenizer.encode(std::vector<TextPiece>{{text, false}}, false), "a piece is a text");

    Ids around = tokenizer.encode(text, true, true);
    if (tokenizer.adds_bos()) {
        demand(!around.empty() && around.front() == tokenizer.bos(), "the token of beginning is added");
        around.erase(around.begin());
    }
    if (it.vocabulary.add_eos && tokenizer.eos()) {
        demand(!around.empty() && around.back() == tokenizer.eos(), "the token of the end is added");
        around.pop_back();
    }
    demand(around == parsed, "nothing else is added");

    if (it.every_byte && it.vocabulary.model == TokenizerModel::byte_bpe) {
        demand(bytes_of(tokenizer, plain) == text, "byte-level BPE loses no byte");
        demand(bytes_of(tokenizer, parsed) == text, "names of special tokens are their text");
        if (utf8::is_valid(text))
            demand(tokenizer.decode(parsed, true) == text, "valid text comes back");
    }
    if (it.every_byte && it.vocabulary.model == TokenizerModel::sentencepiece && !text.empty() &&
        std::find(it.vocabulary.kinds.begin(), it.vocabulary.kinds.end(), TokenKind::user_defined) ==
            it.vocabulary.kinds.end())
        demand(unescape_spaces(bytes_of(tokenizer, plain)) ==
                   unescape_spaces((it.vocabulary.add_space_prefix ? " " : "") + text),
               "SentencePiece loses no byte");

    // The same trust in other slices.
    std::vector<TextPiece> whole, slices;
    for (size_t at = 0; at < text.size();) {
        const size_t length = 1 + below(random, text.size() - at);
        const bool trusted = chance(random, 2);
        whole.push_back({text.substr(at, length), trusted});
        for (size_t begin = at; begin < at + length;) {
            const size_t part = 1 + below(random, at + length - begin);
            slices.push_back({text.substr(begin, part), trusted});
            begin += part;
        }
        at += length;
    }
    demand(tokenizer.encode(whole, true) == tokenizer.encode(slices, true), "slices do not matter");
}

void check_decode(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, bool keep_special) {
    const std::string whole = tokenizer->decode(ids, keep_special);
    demand(utf8::is_valid(whole), "decoded text is UTF-8");
    Detokenizer detokenizer(tokenizer, keep_special);
    std::string streamed;
    for (const TokenId id : ids) {
        const std::string piece = detokenizer.add(id);
        demand(utf8::is_valid(piece), "each piece is UTF-8");
        streamed += piece;
    }
    streamed += detokenizer.finish();
    demand(streamed == whole, "streamed text is the decoded text");
}

void check_stop_strings(Random& random, const std::string& text) {
    std::vector<std::string> stops;
    for (size_t n = below(random, 4); n > 0; --n)
        stops.push_back(chance(random, 3) || text.empty()
                            ? some_text(random)
                            : text.substr(below(random, text.size()), below(random, 12)));
    std::string results[2];
    bool stopped[2] = {};
    for (const int way : {0, 1}) {
        StopStrings watcher(stops);
        for (size_t at = 0; at < text.size();) {
            const size_t length = way == 0 ? 1 : 1 + below(random, text.size() - at);
            const auto result = watcher.add(text.substr(at, length));
            demand(!stopped[way] || (result.stopped && result.text.empty()), "nothing follows a stop");
            results[way] += result.text;
            stopped[way] = result.stopped;
            at += length;
        }
        results[way] += watcher.finish();
    }
    demand(results[0] == results[1] && stopped[0] == stopped[1], "a stop does not depend on the pieces");
    demand(text.starts_with(results[0]), "what is shown is the beginning of the text");
    demand(stopped[0] || results[0] == text, "without a stop all is shown");
    for (const std::string& stop : stops)
        demand(stop.empty() || !utf8::is_valid(stop) || results[0].find(stop) == std::string::npos,
               "no stop string is shown");
}

/// Returns whether the vocabulary was accepted.
bool run_case(uint64_t seed) {
    Random random(seed);
    const Case it = some_case(random);
    std::shared_ptr<const Tokenizer> tokenizer;
    try {
        tokenizer = make_tokenizer(it.vocabulary);
    } catch (const Error&) {
        demand(!it.every_byte, "a sound vocabulary is accepted");
        return false;
    }
    for (const TokenId token : tokenizer->end_tokens())
        demand(token >= 0 && token < tokenizer->size(), "end tokens are tokens");
    for (int i = 0; i < 4; ++i) {
        const std::string text = some_text(random);
        check_encode(random, it, *tokenizer, text);
        check_decode(tokenizer, tokenizer->encode(text, true, true), chance(random, 2));
        Ids ids(below(random, 30));
        for (TokenId& id : ids)
            id = chance(random, 20)
                     ? static_cast<TokenId>(random())
                     : static_cast<TokenId>(below(random, static_cast<size_t>(tokenizer->size())));
        check_decode(tokenizer, ids, chance(random, 2));
        check_stop_strings(random, text);
    }
    return true;
}

} // namespace

int main(int argc, char** argv) {
    uint64_t count = 100000, seed = std::random_device()();
    std::optional<uint64_t> only;
    CLI::App app(
        "Hostile vocabularies and texts through the tokenizer, the detokenizer and the stop strings.");
    app.add_option("--count", count, "how many cases");
    app.add_option("--seed", seed, "the same seed gives the same cases");
    app.add_option("--only", only, "run this case alone");
    CLI11_PARSE(app, argc, argv);
    spdlog::set_level(spdlog::level::off); // thousands of vocabularies deserve their warnings

    const auto start = std::chrono::steady_clock::now();
    uint64_t accepted = 0;
    const uint64_t first = only.value_or(0), end = only ? *only + 1 : count;
    for (uint64_t number = first; number < end; ++number) {
        try {
            accepted += run_case(seed * 1000003 + number);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "case %llu of seed %llu: %s\n", static_cast<unsigned long long>(number),
                         static_cast<unsigned long long>(seed), error.what());
            return 1;
        }
    }
    std::printf("%llu cases, %llu vocabularies accepted, seed %llu, %.1f s\n",
                static_cast<unsigned long long>(end - first), static_cast<unsigned long long>(accepted),
                static_cast<unsigned long long>(seed),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return 0;
}
