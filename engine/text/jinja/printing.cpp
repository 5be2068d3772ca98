#include "engine/text/jinja/printing.h"

#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace orrery::jinja {

std::string print_integer(Integer value) {
    if (value == 0)
        return "0";
    const bool negative = value < 0;
    auto rest = magnitude(value);
    std::string digits;
    for (; rest != 0; rest /= 10)
        digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    if (negative)
        digits.push_back('-');
    std::reverse(digits.begin(), digits.end());
    return digits;
}

std::string print_float(double value) {
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value < 0 ? "-inf" : "inf";
    std::array<char, 32> buffer;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
    const std::string scientific(buffer.data(), end.ptr); // d.ddde±dd
    const size_t e = scientific.find('e');
    const int exponent = std::stoi(scientific.substr(e + 1));
    const std::string sign = scientific[0] == '-' ? "-" : "";
    std::string digits;
    for (size_t i = 0; i < e; ++i)
        if (scientific[i] >= '0' && scientific[i] <= '9')
            digits.push_back(scientific[i]);
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) { // where Python changes to an exponent
        std::string text = sign + digits.substr(0, 1);
        if (count > 1)
            text += "." + digits.substr(1);
        char tail[16];
        std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
        return text + tail;
    }
    if (exponent < 0)
        return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    if (count <= exponent + 1)
        return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
    return sign + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
           digits.substr(static_cast<size_t>(exponent) + 1);
}

namespace {

/// Namespaces can hold each other; a ring of them must not be followed for ever.
constexpr int max_print_depth = 300;

void append_escape(Text& out, char32_t c, bool trusted) {
    char escape[16];
    if (c < 0x100)
        std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(c));
    else if (c < 0x10000)
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
    else
        std::snprintf(escape, sizeof escape, "\\U%08x", static_cast<unsigned>(c));
    out.append(escape, trusted);
}

void represent_text(const Text& text, Text& out) {
    const std::string& bytes = text.bytes();
    const bool double_quotes = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
    const char quote = double_quotes ? '"' : '\'';
    out.append(std::string(1, quote), false);
    for (size_t at = 0; at < bytes.size();) {
        const size_t begin = at;
        const char32_t c = next_code_point(bytes, at);
        const bool trusted = text.trusted_at(begin);
        if (c == static_cast<char32_t>(quote) || c == '\\') {
            out.append("\\", trusted);
            out.append(text, begin, at - begin);
        } else if (c == '\n') {
            out.append("\\n", trusted);
        } else if (c == '\r') {
            out.append("\\r", trusted);
        } else if (c == '\t') {
            out.append("\\t", trusted);
        } else if (!is_printable(c)) {
            append_escape(out, c, trusted);
        } else {
            out.append(text, begin, at - begin);
        }
    }
    out.append(std::string(1, quote), false);
}

void represent_to(const Value& value, Text& out, int depth, Heap& heap) {
    heap.charge_steps(value.is_string() ? weight_of(value) : 1);
    heap.check_memory(2 * out.size());
    if (depth > max_print_depth)
        throw Fault("the value is nested too deep to be printed");
    if (value.is_undefined()) {
        out.append("Undefined", false);
    } else if (value.is_none()) {
        out.append("None", false);
    } else if (value.is_bool()) {
        out.append(value.boolean() ? "True" : "False", false);
    } else if (value.is_integer()) {
        out.append(print_integer(value.integer()), false);
    } else if (value.is_float()) {
        out.append(print_float(value.number()), false);
    } else if (value.is_string()) {
        if (value.is_markup())
            out.append("Markup(", false);
        represent_text(value.text(), out);
        if (value.is_markup())
            out.append(")", false);
    } else if (const Sequence* sequence = value.sequence()) {
        const bool view = sequence->kind() == Sequence::Kind::keys ||
                          sequence->kind() == Sequence::Kind::values ||
                          sequence->kind() == Sequence::Kind::items;
        if (!sequence->display.empty()) {
            out.append(sequence->display, false);
            return;
        }
        const bool tuple = sequence->kind() == Sequence::Kind::tuple;
        if (view)
            out.append(std::string(sequence->python_name()) + "(", false);
        out.append(tuple ? "(" : "[", false);
        bool first = true;
        for (const Value& item : sequence->items()) {
            if (!first)
                out.append(", ", false);
            first = false;
            represent_to(item, out, depth + 1, heap);
        }
        if (tuple && sequence->items().size() == 1)
            out.append(",", false);
        out.append(tuple ? ")" : "]", false);
        if (view)
            out.append(")", false);
    } else if (const Dict* dict = value.dict()) {
        out.append("{", false);
        bool first = true;
        for (const auto& [key, item] : dict->entries()) {
            if (!first)
                out.append(", ", false);
            first = false;
            represent_to(key, out, depth + 1, heap);
            out.append(": ", false);
            represent_to(item, out, depth + 1, heap);
        }
        out.append("}", false);
    } else if (const auto* space = value.as<Namespace>()) {
        out.append("<Namespace {", false);
        bool first = true;
        for (const auto& [name, item] : space->attributes()) {
            out.append((first ? "" : ", ") + in_quotes(name) + ": ", false);
            first = false;
            represent_to(item, out, depth + 1, heap);
        }
        out.append("}>", false);
    } else {
        out.append(value.object()->display(), false);
    }
}

} // namespace

Text print(const Value& value, Heap& heap) {
    if (value.is_string())
        return value.text();
    if (value.is_undefined())
        return Text();
    return represent(value, heap);
}

Text represent(const Value& value, Heap& heap) {
    Text out;
    represent_to(value, out, 0, heap);
    return out;
}

std::string in_quotes(std::string_view utf8) {
    Text out;
    represent_text(Text(utf8, false), out);
    return out.bytes();
}

Text escape_html(const Text& text) {
    Text out;
    size_t plain = 0; // where the run without anything to escape began
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text.bytes()[i];
        const char* entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : nullptr;
        if (!entity)
            continue;
        out.append(text, plain, i - plain);
        out.append(entity, text.trusted_at(i));
        plain = i + 1;
    }
    out.append(text, plain, text.size() - plain);
    return out;
}

} // namespace orrery::jinja
