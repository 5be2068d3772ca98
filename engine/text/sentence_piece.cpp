#include "engine/text/sentence_piece.h"

#include "engine/text/utf8.h"

#include <algorithm>

namespace orrery {
namespace {

constexpr std::string_view escaped_space = "\xE2\x96\x81"; // U+2581

int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

bool can_be_text(TokenKind kind) {
    return kind != TokenKind::control && kind != TokenKind::unknown && kind != TokenKind::byte;
}

/// A file could name a token here that ends an answer; text must never become that.
TokenId unknown_of(const Vocabulary& vocabulary) {
    const TokenId token = vocabulary.unknown.value_or(-1);
    return token >= 0 && vocabulary.kinds[token] == TokenKind::unknown ? token : -1;
}

/// Whether a space follows another character.
bool has_inner_space(std::string_view name) {
    while (name.starts_with(escaped_space))
        name.remove_prefix(escaped_space.size());
    return name.find(escaped_space) != std::string_view::npos;
}

/// Where the word at the beginning of a text ends: its spaces, then all up to the next space.
size_t word_end(std::string_view text) {
    size_t at = 0;
    while (text.substr(at).starts_with(escaped_space))
        at += escaped_space.size();
    return std::min(text.find(escaped_space, at), text.size());
}

} // namespace

std::string escape_spaces(std::string_view text) {
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
        if (c == ' ')
            out += escaped_space;
        else
            out += c;
    }
    return out;
}

std::string unescape_spaces(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const size_t at = std::min(text.find(escaped_space), text.size());
        out += text.substr(0, at);
        text.remove_prefix(at);
        if (!text.empty()) {
            out += ' ';
            text.remove_prefix(escaped_space.size());
        }
    }
    return out;
}

int byte_of_token(std::string_view name) {
    if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>')
        return -1;
    const int high = hex_digit(name[3]), low = hex_digit(name[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

struct SentencePieceEncoder::Scratch {
    struct Symbol {
        size_t begin, end;     // bytes; empty once it is merged into another
        int32_t before, after; // neighbours; -1: none
    };
    struct Candidate {
        float score;
        int32_t left, right;
        size_t length; // bytes of both
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
    uint64_t queue_operations = 0;
};

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary)
    : scores_(vocabulary.scores),
      unknown_(unknown_of(vocabulary)),
      pieces_(vocabulary.tokens.size()),
      known_(vocabulary.tokens.size()) {
    std::fill_n(byte_tokens_, 256, -1);
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        const std::string& name = vocabulary.tokens[i];
        const auto token = static_cast<TokenId>(i);
        const int byte = vocabulary.kinds[i] == TokenKind::byte ? byte_of_token(name) : -1;
        if (byte >= 0 && byte_tokens_[byte] < 0)
            byte_tokens_[byte] = token;
        else if (!name.empty() && can_be_text(vocabulary.kinds[i]) && pieces_.insert(name, token))
            by_words_ = by_words_ && !has_inner_space(name);
    }
}

void SentencePieceEncoder::encode(std::string_view text, std::vector<TokenId>& out, uint64_t* steps) const {
    Scratch scratch;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, by_words_ ? word_end(text) : text.size());
        text.remove_prefix(word.size());
        const TokenId whole = pieces_.find(word);
        const KnownWords::State state = whole < 0 ? KnownWords::several : known_.state(whole);
        if (state == KnownWords::single) {
            out.push_back(whole);
            continue;
        }
        const size_t before = out.size();
        merge(word, out, scratch);
        if (state == KnownWords::untried)
            known_.remember(whole, out.size() == before + 1 && out.back() == whole);
    }
    if (steps)
        *steps += scratch.queue_operations;
}

void SentencePieceEncoder::merge(std::string_view text, std::vector<TokenId>& out, Scratch& scratch) const {
    auto& symbols = scratch.symbols;
    auto& queue = scratch.queue;
    symbols.clear();
    queue.clear();
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8::first(text.substr(at)).length;
        const auto i = static_cast<int32_t>(symbols.size());
        symbols.push_back({at, at + length, i - 1, at + length < text.size() ? i + 1 : -1});
        at += length;
    }

    const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
        return a.score != b.score ? a.score < b.score : a.left > b.left;
    };
    const auto consider = [&](int32_t left, int32_t right) {
        if (left < 0 || right < 0)
            return;
        const size_t begin = symbols[left].begin, length = symbols[right].end - begin;
        const TokenId token = pieces_.find(text.substr(begin, length));
        if (token < 0)
            return;
        queue.push_back({scores_[token], left, right, length});
        std::push_heap(queue.begin(), queue.end(), later);
        ++scratch.queue_operations;
    };
    for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i)
        consider(i, i + 1);

    while (!queue.empty()) {
        const Scratch::Candidate best = queue.front();
        std::pop_heap(queue.begin(), queue.end(), later);
        queue.pop_back();
        ++scratch.queue_operations;
        Scratch::Symbol& left = symbols[best.left];
        Scratch::Symbol& right = symbols[best.right];
        // Out of date where a symbol has grown or is merged into another.
        if (left.begin == left.end || right.begin == right.end || right.end - left.begin != best.length ||
            left.after != best.right)
            continue;
        left.end = right.end;
        left.after = right.after;
        if (right.after >= 0)
            symbols[right.after].before = best.left;
        right.begin = right.end;
        consider(left.before, best.left);
        consider(best.left, left.after);
    }

    for (int32_t i = 0; i >= 0; i = symbols[i].after) {
        const std::string_view piece = text.substr(symbols[i].begin, symbols[i].end - symbols[i].begin);
        if (const TokenId token = pieces_.find(piece); token >= 0) {
            out.push_back(token);
            continue;
        }
        for (const char c : piece) {
            const TokenId token = byte_tokens_[static_cast<uint8_t>(c)];
            if (token >= 0)
                out.push_back(token);
            else if (unknown_ >= 0)
                out.push_back(unknown_);
        }
    }
}

} // namespace orrery
