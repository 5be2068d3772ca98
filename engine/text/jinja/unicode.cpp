#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace orrery::jinja {

namespace {

struct Range {
    char32_t first;
    char32_t last;
};

/// Characters first, first + stride, … last are mapped to themselves + delta.
struct CaseRun {
    char32_t first;
    char32_t last;
    uint32_t stride;
    int32_t delta;
};

struct CaseSpecial {
    char32_t from;
    char32_t to[3]; ///< ends at the first 0
};

#include "engine/text/jinja/unicode_tables.inc"

template <size_t N>
bool in_ranges(const Range (&ranges)[N], char32_t c) {
    const Range* found =
        std::upper_bound(std::begin(ranges), std::end(ranges), c,
                         [](char32_t value, const Range& range) { return value < range.first; });
    return found != std::begin(ranges) && c <= std::prev(found)->last;
}

template <size_t N>
char32_t map_one(const CaseRun (&runs)[N], char32_t c) {
    const CaseRun* found =
        std::upper_bound(std::begin(runs), std::end(runs), c,
                         [](char32_t value, const CaseRun& run) { return value < run.first; });
    if (found == std::begin(runs))
        return c;
    --found;
    if (c <= found->last && (c - found->first) % found->stride == 0)
        return static_cast<char32_t>(static_cast<int32_t>(c) + found->delta);
    return c;
}

template <size_t N>
bool map_special(const CaseSpecial (&specials)[N], char32_t c, std::string& out) {
    const CaseSpecial* found =
        std::lower_bound(std::begin(specials), std::end(specials), c,
                         [](const CaseSpecial& special, char32_t value) { return special.from < value; });
    if (found == std::end(specials) || found->from != c)
        return false;
    for (char32_t to : found->to)
        if (to != 0)
            append_code_point(out, to);
    return true;
}

void lower_one(char32_t c, std::string& out) {
    if (!map_special(lower_specials, c, out))
        append_code_point(out, map_one(lower_runs, c));
}

void upper_one(char32_t c, std::string& out) {
    if (!map_special(upper_specials, c, out))
        append_code_point(out, map_one(upper_runs, c));
}

void title_one(char32_t c, std::string& out) {
    if (!map_special(title_specials, c, out))
        upper_one(c, out);
}

void casefold_one(char32_t c, std::string& out) {
    if (!map_special(casefold_specials, c, out))
        lower_one(c, out);
}

bool is_cased(char32_t c) {
    return is_lower(c) || is_upper(c) || is_title(c);
}

constexpr char32_t capital_sigma = 0x3A3;
constexpr char32_t final_sigma = 0x3C2;

/// A capital sigma at the end of a word has a small form of its own.
bool ends_word(const Text& text, size_t sigma, size_t after) {
    const std::string& bytes = text.bytes();
    if (sigma == 0)
        return false;
    size_t before = sigma - 1;
    while (before > 0 && (bytes[before] & 0xC0) == 0x80)
        --before;
    if (!is_cased(next_code_point(bytes, before)))
        return false;
    return after >= bytes.size() || !is_cased(next_code_point(bytes, after));
}

/// Calls `map(code point, begin, end, out)` for each character and keeps its trust.
template <class Map>
Text mapped(const Text& text, Map map) {
    Text result;
    result.reserve(text.size());
    std::string image;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = next_code_point(text.bytes(), at);
        image.clear();
        map(c, begin, at, image);
        result.append(image, text.trusted_at(begin));
    }
    return result;
}

} // namespace

bool is_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

bool is_alpha(char32_t c) {
    return in_ranges(alpha_ranges, c);
}
bool is_decimal(char32_t c) {
    return in_ranges(decimal_ranges, c);
}
bool is_digit(char32_t c) {
    return in_ranges(digit_ranges, c);
}
bool is_numeric(char32_t c) {
    return in_ranges(numeric_ranges, c);
}
bool is_printable(char32_t c) {
    return !in_ranges(unprintable_ranges, c);
}
bool is_lower(char32_t c) {
    return in_ranges(lowercase_ranges, c);
}
bool is_upper(char32_t c) {
    return in_ranges(uppercase_ranges, c);
}
bool is_title(char32_t c) {
    return in_ranges(titlecase_ranges, c);
}

Text to_lower(const Text& text) {
    return mapped(text, [&](char32_t c, size_t begin, size_t end, std::string& out) {
        if (c == capital_sigma && ends_word(text, begin, end))
            append_code_point(out, final_sigma);
        else
            lower_one(c, out);
    });
}

Text to_upper(const Text& text) {
    return mapped(text, [](char32_t c, size_t, size_t, std::string& out) { upper_one(c, out); });
}

Text to_casefold(const Text& text) {
    return mapped(text, [](char32_t c, size_t, size_t, std::string& out) { casefold_one(c, out); });
}

Text to_title(const Text& text) {
    bool in_word = false;
    return mapped(text, [&](char32_t c, size_t begin, size_t end, std::string& out) {
        if (!in_word)
            title_one(c, out);
        else if (c == capital_sigma && ends_word(text, begin, end))
            append_code_point(out, final_sigma);
        else
            lower_one(c, out);
        in_word = is_cased(c);
    });
}

Text to_capitalized(const Text& text) {
    return mapped(text, [&](char32_t c, size_t begin, size_t end, std::string& out) {
        if (begin == 0)
            title_one(c, out);
        else if (c == capital_sigma && ends_word(text, begin, end))
            append_code_point(out, final_sigma);
        else
            lower_one(c, out);
    });
}

Text swap_case(const Text& text) {
    return mapped(text, [&](char32_t c, size_t begin, size_t end, std::string& out) {
        if (is_upper(c) && c == capital_sigma && ends_word(text, begin, end))
            append_code_point(out, final_sigma);
        else if (is_upper(c))
            lower_one(c, out);
        else if (is_lower(c))
            upper_one(c, out);
        else
            append_code_point(out, c);
    });
}

} // namespace orrery::jinja
