#include "engine/text/utf8.h"

#include <cstring>

namespace orrery::utf8 {
namespace {

/// Length of the run of ASCII at the beginning.
size_t ascii_run(std::string_view text) {
    size_t n = 0;
    for (uint64_t word; n + sizeof word <= text.size(); n += sizeof word) {
        std::memcpy(&word, text.data() + n, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    while (n < text.size() && static_cast<uint8_t>(text[n]) < 0x80)
        ++n;
    return n;
}

} // namespace

Sequence first(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t lead = byte(0);
    if (lead < 0x80)
        return {Form::whole, 1, lead};
    if (lead < 0xC2 || lead > 0xF4)
        return {Form::invalid, 1, 0};
    const uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    char32_t code = lead & (0x7F >> length);
    for (uint8_t i = 1; i < length; ++i) {
        if (i == text.size())
            return {Form::cut, i, 0};
        const uint8_t b = byte(i);
        if (b < (i == 1 ? low : 0x80) || b > (i == 1 ? high : 0xBF))
            return {Form::invalid, i, 0};
        code = code << 6 | (b & 0x3F);
    }
    return {Form::whole, length, code};
}

bool is_valid(std::string_view text) {
    while (true) {
        text.remove_prefix(ascii_run(text));
        if (text.empty())
            return true;
        const Sequence sequence = first(text);
        if (sequence.form != Form::whole)
            return false;
        text.remove_prefix(sequence.length);
    }
}

void append(std::string& out, char32_t code) {
    const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6);
        put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

size_t append_repaired(std::string& out, std::string_view text, bool at_end) {
    size_t used = 0;
    while (used < text.size()) {
        const std::string_view rest = text.substr(used);
        if (const size_t run = ascii_run(rest)) {
            out += rest.substr(0, run);
            used += run;
            continue;
        }
        const Sequence sequence = first(rest);
        if (sequence.form == Form::whole)
            out += rest.substr(0, sequence.length);
        else if (sequence.form == Form::invalid || at_end)
            append(out, 0xFFFD);
        else
            break;
        used += sequence.length;
    }
    return used;
}

} // namespace orrery::utf8
