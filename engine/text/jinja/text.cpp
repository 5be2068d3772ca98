#include "engine/text/jinja/text.h"

#include <algorithm>

namespace orrery::jinja {

void Text::append(std::string_view utf8, bool trusted) {
    bytes_.append(utf8);
    trust_.append(utf8.size(), trusted ? '\1' : '\0');
}

void Text::append(const Text& other) {
    bytes_.append(other.bytes_);
    trust_.append(other.trust_);
}

void Text::append(const Text& other, size_t first_byte, size_t count_bytes) {
    bytes_.append(other.bytes_, first_byte, count_bytes);
    trust_.append(other.trust_, first_byte, count_bytes);
}

void Text::reserve(size_t size_bytes) {
    bytes_.reserve(size_bytes);
    trust_.reserve(size_bytes);
}

Text Text::substr(size_t first_byte, size_t count_bytes) const {
    Text part;
    part.append(*this, std::min(first_byte, size()), count_bytes);
    return part;
}

bool Text::is_ascii() const {
    return std::all_of(bytes_.begin(), bytes_.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

size_t Text::length() const {
    return static_cast<size_t>(
        std::count_if(bytes_.begin(), bytes_.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<size_t> Text::offsets() const {
    std::vector<size_t> starts;
    starts.reserve(size() + 1);
    for (size_t i = 0; i < size(); ++i)
        if ((bytes_[i] & 0xC0) != 0x80)
            starts.push_back(i);
    starts.push_back(size());
    return starts;
}

char32_t next_code_point(std::string_view utf8, size_t& at) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(utf8[i]); };
    const unsigned char lead = byte(at);
    const size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t code_point = size == 1 ? lead : lead & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size; ++i)
        code_point = (code_point << 6) | (byte(at + i) & 0x3Fu);
    at += size;
    return code_point;
}

void append_code_point(std::string& utf8, char32_t code_point) {
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000))
        code_point = 0xFFFD;
    const auto put = [&](char32_t byte) { utf8.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0 | (code_point >> 6));
        put(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        put(0xE0 | (code_point >> 12));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    } else {
        put(0xF0 | (code_point >> 18));
        put(0x80 | ((code_point >> 12) & 0x3F));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    }
}

namespace {

/// Size of the well-formed character at `at` (The Unicode Standard, table 3-7), or 0.
size_t character_size(std::string_view bytes, size_t at) {
    const auto byte = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
    const unsigned lead = byte(at);
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(at + 1) < low || byte(at + 1) > high)
        return 0;
    for (size_t i = 2; i < size; ++i)
        if ((byte(at + i) & 0xC0) != 0x80)
            return 0;
    return size;
}

} // namespace

std::string valid_utf8(std::string_view bytes) {
    std::string result;
    result.reserve(bytes.size());
    for (size_t at = 0; at < bytes.size();) {
        const size_t size = character_size(bytes, at);
        if (size == 0) {
            append_code_point(result, 0xFFFD);
            ++at;
        } else {
            result.append(bytes, at, size);
            at += size;
        }
    }
    return result;
}

} // namespace orrery::jinja
