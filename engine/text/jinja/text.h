// Text with the origin of each of its bytes.
//
// What a template's author wrote is trusted: the names of special tokens in it stand for these tokens. What
// came in through messages, tools and other data is not. Every operation on text goes through this class,
// so trust follows each byte through slicing, joining, replacing and formatting, and is never gained there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::jinja {

class Text {
public:
    Text() = default;
    Text(std::string_view utf8, bool trusted) { append(utf8, trusted); }

    const std::string& bytes() const { return bytes_; }
    size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    bool trusted_at(size_t byte) const { return trust_[byte] != 0; }

    void append(std::string_view utf8, bool trusted);
    void append(const Text& other);
    void append(const Text& other, size_t first_byte, size_t count_bytes);
    void reserve(size_t size_bytes);

    /// Bytes [first, first + count), which must begin and end between characters.
    Text substr(size_t first_byte, size_t count_bytes = std::string::npos) const;

    bool is_ascii() const;
    /// Number of code points.
    size_t length() const;
    /// Where each code point begins, and the end: length() + 1 byte positions.
    std::vector<size_t> offsets() const;

private:
    std::string bytes_; ///< always valid UTF-8
    std::string trust_; ///< one byte of 0 or 1 for each byte of text
};

/// Code point that begins at byte `at` of valid UTF-8; moves `at` to the next one.
char32_t next_code_point(std::string_view utf8, size_t& at);
void append_code_point(std::string& utf8, char32_t code_point);

/// The same text with U+FFFD in place of each byte that is no part of a UTF-8 character.
std::string valid_utf8(std::string_view bytes);

} // namespace orrery::jinja
