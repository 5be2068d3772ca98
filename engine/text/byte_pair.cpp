#include "engine/text/byte_pair.h"

#include "engine/text/utf8.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <bit>

namespace orrery {
namespace {

// GPT-2's table: printable characters of Latin-1 stand for themselves, the others follow from U+0100 on, in
// order.
struct ByteTable {
    std::array<char32_t, 256> character{};
    std::array<int16_t, 256 + 256> byte{}; // by character; -1: none

    constexpr ByteTable() {
        byte.fill(-1);
        char32_t next = 0x100;
        for (int b = 0; b < 256; ++b) {
            const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            character[b] = printable ? b : next++;
            byte[character[b]] = static_cast<int16_t>(b);
        }
    }
};

constexpr ByteTable byte_table;

bool can_be_text(TokenKind kind) {
    return kind != TokenKind::control && kind != TokenKind::unknown;
}

} // namespace

std::string bytes_from_byte_level(std::string_view name, bool* pure) {
    std::string out;
    out.reserve(name.size());
    if (pure)
        *pure = true;
    while (!name.empty()) {
        const utf8::Sequence sequence = utf8::first(name);
        const int byte = sequence.form == utf8::Form::whole && sequence.code < byte_table.byte.size()
                             ? byte_table.byte[sequence.code]
                             : -1;
        if (byte >= 0) {
            out += static_cast<char>(byte);
        } else {
            out += name.substr(0, sequence.length);
            if (pure)
                *pure = false;
        }
        name.remove_prefix(sequence.length);
    }
    return out;
}

std::string byte_level_character(uint8_t byte) {
    std::string out;
    utf8::append(out, byte_table.character[byte]);
    return out;
}

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary, const TokenIndex& names)
    : ignore_merges_(vocabulary.ignore_merges),
      bytes_(vocabulary.tokens.size()),
      words_(vocabulary.tokens.size()),
      known_(vocabulary.tokens.size()) {
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
        if (vocabulary.tokens[i].empty() || !can_be_text(vocabulary.kinds[i]))
            continue;
        bool pure = false;
        bytes_[i] = bytes_from_byte_level(vocabulary.tokens[i], &pure);
        if (pure)
            words_.insert(bytes_[i], static_cast<TokenId>(i));
        else
            bytes_[i].clear();
    }
    const auto find = [&](std::string_view name) {
        const TokenId token = names.find(name);
        return token >= 0 && can_be_text(vocabulary.kinds[token]) ? token : -1;
    };
    for (int b = 0; b < 256; ++b)
        byte_tokens_[b] = find(byte_level_character(static_cast<uint8_t>(b)));

    merges_.resize(std::bit_ceil(std::max<size_t>(2 * vocabulary.merges.size(), 2)));
    size_t ignored = 0;
    std::string whole;
    for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
        const std::string_view line = vocabulary.merges[rank];
        const size_t space = line.find(' ', 1);
        TokenId left = -1, right = -1, merged = -1;
        if (space != std::string_view::npos) {
            left = find(line.substr(0, space));
            right = find(line.substr(space + 1));
            whole.assign(line.substr(0, space));
            whole += line.substr(space + 1);
            merged = find(whole);
        }
        if (left < 0 || right < 0 || merged < 0) {
            ++ignored;
            continue;
        }
        Merge& merge = merges_[merge_slot(pair_of(left, right))];
        if (merge.merged < 0) // of two equal merges the first counts
            merge = {pair_of(left, right), static_cast<uint32_t>(rank), merged};
    }
    if (ignored)
        spdlog::warn("{}: {} of {} merges name tokens that are not in the vocabulary, and are ignored.",
                     vocabulary.source, ignored, vocabulary.merges.size());
}

uint64_t BytePairEncoder::pair_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t BytePairEncoder::merge_slot(uint64_t pair) const {
    const size_t mask = merges_.size() - 1;
    // Fibonacci hashing spreads the pairs; the upper half of the product is the better one.
    size_t i = (pair * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (merges_[i].merged >= 0 && merges_[i].pair != pair)
        i = (i + 1) & mask;
    return i;
}

const BytePairEncoder::Merge* BytePairEncoder::find_merge(TokenId left, TokenId right) const {
    if (left < 0 || right < 0)
        return nullptr;
    const Merge& merge = merges_[merge_slot(pair_of(left, right))];
    return merge.merged >= 0 ? &merge : nullptr;
}

void BytePairEncoder::encode(std::string_view word, std::vector<TokenId>& out, Scratch& scratch) const {
    if (word.empty())
        return;
    const TokenId whole = words_.find(word);
    const KnownWords::State state = whole < 0        ? KnownWords::several
                                    : ignore_merges_ ? KnownWords::single
                                                     : known_.state(whole);
    if (state == KnownWords::single) {
        out.push_back(whole);
        return;
    }
    const size_t before = out.size();
    merge(word, out, scratch);
    if (state == KnownWords::untried)
        known_.remember(whole, out.size() == before + 1 && out.back() == whole);
}

void BytePairEncoder::merge(std::string_view word, std::vector<TokenId>& out, Scratch& scratch) const {
    auto& symbols = scratch.symbols;
    auto& queue = scratch.queue;
    const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
        return a.order > b.order;
    };
    const auto consider = [&](int32_t left, int32_t right) {
        if (left < 0 || right < 0)
            return;
        const Merge* merge = find_merge(symbols[left].token, symbols[right].token);
        if (!merge)
            return;
        queue.push_back({static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(left),
                         symbols[left].token, symbols[right].token, merge->merged});
        std::push_heap(queue.begin(), queue.end(), later);
        ++scratch.queue_operations;
    };

    const auto count = static_cast<int32_t>(word.size());
    symbols.clear();
    queue.clear();
    for (int32_t i = 0; i < count; ++i)
        symbols.push_back({byte_tokens_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < count ? i + 1 : -1});
    for (int32_t i = 0; i + 1 < count; ++i)
        consider(i, i + 1);

    while (!queue.empty()) {
        const Scratch::Candidate best = queue.front();
        std::pop_heap(queue.begin(), queue.end(), later);
        queue.pop_back();
        ++scratch.queue_operations;
        const auto left = static_cast<int32_t>(best.order & UINT32_MAX);
        const int32_t right = symbols[left].after;
        // A candidate is out of date where one of its symbols has grown since: then its token is another one,
        // because a merged token is longer than its parts. A symbol that was merged into another has no
        // token.
        if (symbols[left].token != best.left || right < 0 || symbols[right].token != best.right)
            continue;
        symbols[left].token = best.merged;
        symbols[left].after = symbols[right].after;
        if (symbols[right].after >= 0)
            symbols[symbols[right].after].before = left;
        symbols[right].token = -1;
        symbols[right].after = -1;
        consider(symbols[left].before, left);
        consider(left, symbols[left].after);
    }

    for (int32_t i = 0; i >= 0 && i < count; i = symbols[i].after)
        if (symbols[i].token >= 0)
            out.push_back(symbols[i].token);
}

} // namespace orrery
