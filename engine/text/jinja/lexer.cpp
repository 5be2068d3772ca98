#include "engine/text/jinja/lexer.h"

#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/unicode.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

namespace orrery::jinja {

std::string Token::describe() const {
    switch (kind) {
    case Kind::data:
        return "text";
    case Kind::variable_begin:
        return "'{{'";
    case Kind::variable_end:
        return "'}}'";
    case Kind::block_begin:
        return "'{%'";
    case Kind::block_end:
        return "'%}'";
    case Kind::end:
        return "the end of the template";
    case Kind::integer:
        return "an integer";
    case Kind::floating:
        return "a number";
    case Kind::string:
    case Kind::name:
    case Kind::symbol:
        return in_quotes(text.size() > 60 ? valid_utf8(text.substr(0, 60)) : text);
    }
    return "a token";
}

void syntax_error(int line, const std::string& message) {
    throw Error("the chat template is wrong in line " + std::to_string(line) + ": " + message);
}

namespace {

bool is_ascii_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
    return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Every line break becomes \n, and the last one goes.
std::string normalized(std::string_view source) {
    std::string text;
    text.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            text.push_back('\n');
            if (i + 1 < source.size() && source[i + 1] == '\n')
                ++i;
        } else {
            text.push_back(source[i]);
        }
    }
    if (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text;
}

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(normalized(valid_utf8(source))) {}

    std::vector<Token> run() {
        while (at_ < source_.size())
            root();
        add(Token::Kind::end, "");
        return std::move(tokens_);
    }

private:
    // --- text and the beginnings of tags ---

    void root() {
        const size_t tag = next_tag(at_);
        if (tag == std::string::npos) {
            add_data(at_, source_.size());
            advance(source_.size());
            return;
        }
        const char kind = source_[tag + 1];
        size_t after = tag + 2;
        const char sign =
            after < source_.size() && (source_[after] == '-' || source_[after] == '+') ? source_[after] : 0;
        if (sign)
            ++after;
        add_data(at_, stripped_end(at_, tag, sign, kind != '{'));
        advance(tag);
        if (kind == '#') {
            advance(after);
            if (at_ < source_.size()) // at the very end Jinja forgives it
                comment();
        } else if (const size_t raw = kind == '%' ? raw_begin(after) : std::string::npos;
                   raw != std::string::npos) {
            line_starting_ = source_[raw - 1] == '\n';
            advance(raw);
            if (at_ < source_.size())
                raw_block();
        } else {
            add(kind == '{' ? Token::Kind::variable_begin : Token::Kind::block_begin, "");
            advance(after);
            tag_body(kind == '{');
        }
    }

    size_t next_tag(size_t from) const {
        for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1)) {
            const char next = i + 1 < source_.size() ? source_[i + 1] : 0;
            if (next == '{' || next == '%' || next == '#')
                return i;
        }
        return std::string::npos;
    }

    /// Where the text before a tag ends, after whitespace control.
    size_t stripped_end(size_t begin, size_t end, char sign, bool is_block) const {
        if (sign == '-')
            return space_before(begin, end);
        if (sign == '+' || !is_block)
            return end;
        const size_t newline = end > begin ? source_.rfind('\n', end - 1) : std::string::npos;
        const bool has_newline = newline != std::string::npos && newline >= begin;
        if (!has_newline && !line_starting_)
            return end;
        const size_t line = has_newline ? newline + 1 : begin;
        return space_before(line, end) == line ? line : end;
    }

    /// Beginning of the whitespace that ends at `end`.
    size_t space_before(size_t begin, size_t end) const {
        while (end > begin) {
            size_t start = end - 1;
            while (start > begin && (source_[start] & 0xC0) == 0x80)
                --start;
            size_t at = start;
            if (!is_space(next_code_point(source_, at)))
                break;
            end = start;
        }
        return end;
    }

    size_t skip_space(size_t at) const {
        while (at < source_.size()) {
            size_t next = at;
            if (!is_space(next_code_point(source_, next)))
                break;
            at = next;
        }
        return at;
    }

    void comment() {
        const size_t begin = at_;
        const size_t close = source_.find("#}", begin);
        if (close == std::string::npos)
            syntax_error(line_, "the comment has no end");
        const char sign = close > begin ? source_[close - 1] : 0;
        end_tag(close + 2, sign);
    }

    /// After the end of a block tag or a comment: a minus strips all space, a plus nothing, else one newline
    /// goes.
    void end_tag(size_t after, char sign) {
        if (sign == '-')
            after = skip_space(after);
        else if (sign != '+' && after < source_.size() && source_[after] == '\n')
            ++after;
        line_starting_ = source_[after - 1] == '\n';
        advance(after);
    }

    /// End of "raw %}" at `at`, or npos where another statement stands there.
    size_t raw_begin(size_t at) const {
        at = skip_space(at);
        if (source_.compare(at, 3, "raw") != 0)
            return std::string::npos;
        at = skip_space(at + 3);
        if (source_.compare(at, 3, "-%}") == 0)
            return skip_space(at + 3);
        return source_.compare(at, 2, "%}") == 0 ? at + 2 : std::string::npos;
    }

    void raw_block() {
        const size_t begin = at_;
        for (size_t tag = source_.find("{%", begin); tag != std::string::npos;
             tag = source_.find("{%", tag + 1)) {
            size_t at = tag + 2;
            const char sign =
                at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : 0;
            at = skip_space(at + (sign ? 1 : 0));
            if (source_.compare(at, 6, "endraw") != 0)
                continue;
            at = skip_space(at + 6);
            const char close_sign =
                at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : 0;
            if (close_sign)
                ++at;
            if (source_.compare(at, 2, "%}") != 0)
                continue;
            add_data(begin, stripped_end(begin, tag, sign, true));
            end_tag(at + 2, close_sign);
            return;
        }
        syntax_error(line_, "the raw block has no end");
    }

    // --- inside of tags ---

    void tag_body(bool is_variable) {
        const int begin_line = line_;
        std::string open; // brackets that wait for their partners
        while (true) {
            advance(skip_space(at_));
            if (at_ >= source_.size())
                syntax_error(begin_line, "the tag has no end");
            if (open.empty() && tag_end(is_variable))
                return;
            const char c = source_[at_];
            if (is_ascii_digit(c))
                number();
            else if (c == '\'' || c == '"')
                string(c);
            else if (is_name_character(at_))
                name();
            else
                symbol(open);
        }
    }

    bool tag_end(bool is_variable) {
        const char sign = source_[at_] == '-' || (source_[at_] == '+' && !is_variable) ? source_[at_] : 0;
        const size_t close = at_ + (sign ? 1 : 0);
        if (source_.compare(close, 2, is_variable ? "}}" : "%}") != 0)
            return false;
        add(is_variable ? Token::Kind::variable_end : Token::Kind::block_end, "");
        if (!is_variable) {
            end_tag(close + 2, sign);
            return true;
        }
        const size_t after = sign ? skip_space(close + 2) : close + 2;
        line_starting_ = source_[after - 1] == '\n';
        advance(after);
        return true;
    }

    bool is_name_character(size_t at) const {
        size_t next = at;
        const char32_t c = next_code_point(source_, next);
        return c == '_' || is_alnum(c);
    }

    void name() {
        size_t end = at_;
        while (end < source_.size() && is_name_character(end))
            next_code_point(source_, end);
        add(Token::Kind::name, source_.substr(at_, end - at_));
        advance(end);
    }

    /// End of digits that may be separated by single underscores.
    template <class IsDigit>
    size_t digits(size_t at, IsDigit is_digit) const {
        while (at < source_.size() &&
               (is_digit(source_[at]) ||
                (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1]))))
            ++at;
        return at;
    }

    bool digit_at(size_t at) const { return at < source_.size() && is_ascii_digit(source_[at]); }

    void number() {
        const size_t whole = digits(at_, is_ascii_digit);
        size_t end = whole;
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
        if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1))
            end = digits(end + 1, is_ascii_digit);
        if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
            const size_t sign =
                end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
            if (digit_at(end + 1 + sign))
                end = digits(end + 1 + sign, is_ascii_digit);
        }
        if (end == whole) {
            integer(whole);
            return;
        }
        std::string text = source_.substr(at_, end - at_);
        std::erase(text, '_');
        double value = 0;
        const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
        if (result.ec == std::errc::result_out_of_range)
            value = text.find("e-") != std::string::npos || text.find("E-") != std::string::npos
                        ? 0
                        : std::numeric_limits<double>::infinity();
        Token& token = add(Token::Kind::floating, text);
        token.floating = value;
        advance(end);
    }

    void integer(size_t decimal_end) {
        int base = 10;
        size_t begin = at_;
        size_t end = decimal_end;
        const char prefix = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : 0;
        const auto based = [&](int candidate, auto is_digit) {
            const size_t stop = digits(at_ + 2, is_digit);
            if (stop == at_ + 2)
                return;
            base = candidate;
            begin = at_ + 2;
            end = stop;
        };
        if (source_[at_] == '0') {
            if (prefix == 'x')
                based(16, is_hex_digit);
            else if (prefix == 'o')
                based(8, [](char c) { return c >= '0' && c <= '7'; });
            else if (prefix == 'b')
                based(2, [](char c) { return c == '0' || c == '1'; });
            else // a decimal that begins with 0 is made of zeros
                end = digits(at_, [](char c) { return c == '0'; });
        }
        Integer value = 0;
        for (size_t i = begin; i < end; ++i) {
            const char c = source_[i];
            if (c == '_')
                continue;
            const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
            if (__builtin_mul_overflow(value, Integer(base), &value) ||
                __builtin_add_overflow(value, Integer(digit), &value))
                syntax_error(line_, "the integer is too large");
        }
        Token& token = add(Token::Kind::integer, source_.substr(at_, end - at_));
        token.integer = value;
        advance(end);
    }

    void string(char quote) {
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote)
            end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size())
            syntax_error(line_, "the string has no end");
        add(Token::Kind::string, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
        advance(end + 1);
    }

    char32_t code(std::string_view raw, size_t at, size_t count) const {
        char32_t value = 0;
        for (size_t i = 0; i < count; ++i) {
            if (at + i >= raw.size() || !is_hex_digit(raw[at + i]))
                syntax_error(line_, "the escape " + in_quotes(raw.substr(at - 2, i + 2)) + " is cut off");
            const char c = raw[at + i];
            value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return value;
    }

    /// A backslash before a character beyond ASCII: Python then sees the character's own escape as plain
    /// text.
    static void append_as_written(std::string& out, std::string_view character) {
        size_t at = 0;
        const char32_t c = next_code_point(character, at);
        if (c < 0x80) {
            out.append(character);
            return;
        }
        char escape[16];
        std::snprintf(escape, sizeof escape,
                      c < 0x100     ? "x%02x"
                      : c < 0x10000 ? "u%04x"
                                    : "U%08x",
                      static_cast<unsigned>(c));
        out.append(escape);
    }

    /// Python's escapes. What is no escape stays as it is written.
    std::string unescaped(std::string_view raw) const {
        static constexpr std::string_view simple = "\\'\"abfnrtv";
        static constexpr std::string_view meaning = "\\'\"\a\b\f\n\r\t\v";
        std::string out;
        for (size_t i = 0; i < raw.size();) {
            if (raw[i] != '\\' || i + 1 == raw.size()) {
                out.push_back(raw[i++]);
                continue;
            }
            const char c = raw[i + 1];
            if (const size_t known = simple.find(c); known != std::string_view::npos) {
                out.push_back(meaning[known]);
                i += 2;
            } else if (c == '\n') { // a line that goes on
                i += 2;
            } else if (c >= '0' && c <= '7') {
                char32_t value = 0;
                size_t end = i + 1;
                while (end < raw.size() && end < i + 4 && raw[end] >= '0' && raw[end] <= '7')
                    value = value * 8 + static_cast<char32_t>(raw[end++] - '0');
                append_code_point(out, value);
                i = end;
            } else if (c == 'x' || c == 'u' || c == 'U') {
                const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
                char32_t value = code(raw, i + 2, count);
                i += 2 + count;
                const bool high = value >= 0xD800 && value < 0xDC00;
                if (high && raw.compare(i, 2, "\\u") == 0) {
                    const char32_t low = code(raw, i + 2, 4);
                    if (low >= 0xDC00 && low < 0xE000) {
                        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
                        i += 6;
                    }
                }
                if (value > 0x10FFFF)
                    syntax_error(line_, "there is no such character as the escape in the string names");
                append_code_point(out, value);
            } else if (c == 'N') {
                syntax_error(line_, "escapes with the name of a character (\\N{…}) are not supported");
            } else {
                out.push_back('\\'); // what follows is read as if it stood alone
                ++i;
                size_t next = i;
                next_code_point(raw, next);
                append_as_written(out, raw.substr(i, next - i));
                i = next;
            }
        }
        return out;
    }

    void symbol(std::string& open) {
        static constexpr std::array<std::string_view, 7> two = {"//", "**", "==", "!=", ">=", "<=", ""};
        static constexpr std::string_view one = "+-/*%~[](){}><=.:|,;";
        const std::string_view rest = std::string_view(source_).substr(at_);
        std::string found;
        for (const std::string_view candidate : two)
            if (!candidate.empty() && rest.starts_with(candidate))
                found = candidate;
        if (found.empty() && one.find(rest[0]) != std::string_view::npos)
            found = rest.substr(0, 1);
        if (found.empty()) {
            size_t end = at_;
            next_code_point(source_, end);
            syntax_error(line_, "unexpected character " + in_quotes(source_.substr(at_, end - at_)));
        }
        const char c = found[0];
        if (c == '(' || c == '[' || c == '{') {
            open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
        } else if (c == ')' || c == ']' || c == '}') {
            if (open.empty())
                syntax_error(line_, "unexpected '" + found + "'");
            if (open.back() != c)
                syntax_error(line_, "unexpected '" + found + "', expected '" + open.back() + "'");
            open.pop_back();
        }
        add(Token::Kind::symbol, found);
        advance(at_ + found.size());
    }

    // --- bookkeeping ---

    void advance(size_t to) {
        line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        at_ = to;
    }

    void add_data(size_t begin, size_t end) {
        if (end > begin)
            add(Token::Kind::data, source_.substr(begin, end - begin));
    }

    Token& add(Token::Kind kind, std::string text) {
        Token token;
        token.kind = kind;
        token.text = std::move(text);
        token.line = line_;
        tokens_.push_back(std::move(token));
        return tokens_.back();
    }

    std::string source_;
    size_t at_ = 0;
    int line_ = 1;
    bool line_starting_ = true; ///< the last tag ended with a newline
    std::vector<Token> tokens_;
};

} // namespace

std::vector<Token> tokenize(std::string_view source) {
    return Lexer(source).run();
}

} // namespace orrery::jinja
