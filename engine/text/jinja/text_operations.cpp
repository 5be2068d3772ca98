#include "engine/text/jinja/text_operations.h"

#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <functional>

namespace orrery::jinja {

namespace {

/// Beginning of the character that ends at byte `end`.
size_t previous(const std::string& bytes, size_t end) {
    --end;
    while (end > 0 && (bytes[end] & 0xC0) == 0x80)
        --end;
    return end;
}

/// A list of parts can take more memory than the text: each has its own.
void put(std::vector<Text>& parts, Text part, Heap& heap) {
    heap.charge_steps(1);
    heap.check_memory(parts.size() * (sizeof(Text) + sizeof(Value) + 64));
    parts.push_back(std::move(part));
}

bool is_line_end(char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

} // namespace

Text strip(const Text& text, const Text* characters, bool left, bool right, Heap& heap) {
    if (characters)
        heap.charge_search(text.size(), characters->size());
    const std::string& bytes = text.bytes();
    const auto is_stripped = [&](size_t begin, size_t end) {
        size_t at = begin;
        if (!characters)
            return is_space(next_code_point(bytes, at));
        return characters->bytes().find(bytes.substr(begin, end - begin)) != std::string::npos;
    };
    size_t begin = 0;
    size_t end = bytes.size();
    while (left && begin < end) {
        size_t next = begin;
        next_code_point(bytes, next);
        if (!is_stripped(begin, next))
            break;
        begin = next;
    }
    while (right && end > begin) {
        const size_t last = previous(bytes, end);
        if (!is_stripped(last, end))
            break;
        end = last;
    }
    return text.substr(begin, end - begin);
}

std::vector<Text> split_space(const Text& text, Integer limit, bool from_right, Heap& heap) {
    const std::string& bytes = text.bytes();
    std::vector<Text> parts;
    const auto space_at = [&](size_t at) { return is_space(next_code_point(bytes, at)); };
    if (!from_right) {
        size_t at = 0;
        const auto skip_space = [&] {
            while (at < bytes.size() && space_at(at))
                next_code_point(bytes, at);
        };
        for (skip_space(); at < bytes.size(); skip_space()) {
            if (limit >= 0 && Integer(parts.size()) == limit) {
                put(parts, text.substr(at), heap);
                break;
            }
            const size_t begin = at;
            while (at < bytes.size() && !space_at(at))
                next_code_point(bytes, at);
            put(parts, text.substr(begin, at - begin), heap);
        }
        return parts;
    }
    size_t end = bytes.size();
    const auto skip_space = [&] {
        while (end > 0 && space_at(previous(bytes, end)))
            end = previous(bytes, end);
    };
    for (skip_space(); end > 0; skip_space()) {
        if (limit >= 0 && Integer(parts.size()) == limit) {
            put(parts, text.substr(0, end), heap);
            break;
        }
        size_t begin = end;
        while (begin > 0 && !space_at(previous(bytes, begin)))
            begin = previous(bytes, begin);
        put(parts, text.substr(begin, end - begin), heap);
        end = begin;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<Text> split(const Text& text, std::string_view separator, Integer limit, bool from_right,
                        Heap& heap) {
    const std::string& bytes = text.bytes();
    std::vector<Text> parts;
    if (!from_right) {
        size_t begin = 0;
        while (limit < 0 || Integer(parts.size()) < limit) {
            const size_t at = bytes.find(separator, begin);
            if (at == std::string::npos)
                break;
            put(parts, text.substr(begin, at - begin), heap);
            begin = at + separator.size();
        }
        put(parts, text.substr(begin), heap);
        return parts;
    }
    size_t end = bytes.size();
    while ((limit < 0 || Integer(parts.size()) < limit) && end >= separator.size()) {
        const size_t at = bytes.rfind(separator, end - separator.size());
        if (at == std::string::npos)
            break;
        put(parts, text.substr(at + separator.size(), end - at - separator.size()), heap);
        end = at;
    }
    put(parts, text.substr(0, end), heap);
    std::reverse(parts.begin(), parts.end());
    return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends, Heap& heap) {
    const std::string& bytes = text.bytes();
    std::vector<Text> lines;
    size_t begin = 0;
    for (size_t at = 0; at < bytes.size();) {
        const size_t end = at;
        const char32_t c = next_code_point(bytes, at);
        if (!is_line_end(c))
            continue;
        if (c == '\r' && at < bytes.size() && bytes[at] == '\n')
            ++at;
        put(lines, text.substr(begin, (keep_ends ? at : end) - begin), heap);
        begin = at;
    }
    if (begin < bytes.size())
        put(lines, text.substr(begin), heap);
    return lines;
}

Text replace(const Text& text, std::string_view old, const Text& replacement, Integer limit, Heap& heap) {
    const std::string& bytes = text.bytes();
    heap.charge_search(text.size(), old.size());
    Text result;
    Integer done = 0;
    const auto may_replace = [&] { return limit < 0 || done < limit; };
    const auto put = [&] {
        heap.check_memory(2 * (result.size() + replacement.size()));
        heap.charge_steps(1 + replacement.size() / 64);
        result.append(replacement);
        ++done;
    };
    if (old.empty()) { // before every character, and at the end
        for (size_t at = 0; at < bytes.size();) {
            if (may_replace())
                put();
            const size_t begin = at;
            next_code_point(bytes, at);
            result.append(text, begin, at - begin);
        }
        if (may_replace())
            put();
        return result;
    }
    size_t begin = 0;
    for (size_t at = bytes.find(old); at != std::string::npos && may_replace(); at = bytes.find(old, begin)) {
        result.append(text, begin, at - begin);
        put();
        begin = at + old.size();
    }
    result.append(text, begin, bytes.size() - begin);
    return result;
}

Text pad(const Text& text, Integer width, char side, const Text& fill, Heap& heap) {
    const Integer length = Integer(text.length());
    if (width <= length)
        return text;
    const Integer missing = width - length;
    if (missing > Integer(heap.limits().memory_bytes / (2 * fill.size())))
        throw Fault("a width of that many characters is too large");
    heap.check_memory(2 * (text.size() + fill.size() * static_cast<size_t>(missing)));
    const Integer odd_left = side == 'c' ? missing & width & 1 : 0;
    const Integer left = side == '<' ? 0 : side == '>' ? missing : missing / 2 + odd_left;
    Text result;
    for (Integer i = 0; i < left; ++i)
        result.append(fill);
    result.append(text);
    for (Integer i = left; i < missing; ++i)
        result.append(fill);
    return result;
}

namespace {

bool is_case(const Text& text, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
    bool any = false;
    for (size_t at = 0; at < text.size();) {
        const char32_t c = next_code_point(text.bytes(), at);
        if (other(c) || is_title(c))
            return false;
        any |= wanted(c);
    }
    return any;
}

} // namespace

bool is_lower_text(const Text& text) {
    return is_case(text, is_lower, is_upper);
}
bool is_upper_text(const Text& text) {
    return is_case(text, is_upper, is_lower);
}

} // namespace orrery::jinja
