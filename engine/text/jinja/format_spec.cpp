#include "engine/text/jinja/format_spec.h"

#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace orrery::jinja {

namespace {

/// A double has at most 1074 digits behind its point.
constexpr int max_precision = 1100;

bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

std::string print_double(const char* flags, int precision, char type, double value) {
    const std::string pattern = std::string("%") + flags + ".*" + type;
    std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, pattern.c_str(), precision, value)), '\0');
    std::snprintf(text.data(), text.size() + 1, pattern.c_str(), precision, value);
    return text;
}

/// Digits of a number that is not negative, in base 2, 8, 10 or 16.
std::string digits_of(unsigned __int128 value, unsigned base, bool upper) {
    std::string digits;
    do {
        const auto digit = static_cast<unsigned>(value % base);
        digits.push_back(digit < 10 ? static_cast<char>('0' + digit)
                         : upper    ? static_cast<char>('A' + digit - 10)
                                    : static_cast<char>('a' + digit - 10));
        value /= base;
    } while (value != 0);
    std::reverse(digits.begin(), digits.end());
    return digits;
}

/// Puts separators between groups of digits before the point.
std::string grouped(const std::string& digits, char separator, size_t group) {
    std::string out;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % group == 0)
            out.push_back(separator);
        out.push_back(digits[i]);
    }
    return out;
}

/// Sign, prefix and digits of a number, padded to the width.
Text lay_out_number(const std::string& sign_and_prefix, std::string whole, const std::string& rest,
                    const FormatSpec& spec, size_t group, Heap& heap) {
    if (spec.grouping) {
        const bool zeros = spec.align == '=' && spec.fill.bytes() == "0";
        const Integer fixed = Integer(sign_and_prefix.size() + rest.size());
        if (zeros && spec.width > Integer(max_precision))
            throw Fault("the width of a number is too large");
        std::string out = grouped(whole, spec.grouping, group);
        while (zeros && Integer(out.size()) + fixed < spec.width) {
            whole.insert(whole.begin(), '0'); // zeros are grouped like digits
            out = grouped(whole, spec.grouping, group);
        }
        whole = out;
    }
    const std::string body = whole + rest;
    const char align = spec.align ? spec.align : '>';
    if (align != '=')
        return pad(Text(sign_and_prefix + body, false), spec.width, align, spec.fill, heap);
    Text text(sign_and_prefix, false);
    text.append(pad(Text(body, false), spec.width - Integer(sign_and_prefix.size()), '>', spec.fill, heap));
    return text;
}

std::string sign_text(bool negative, char sign) {
    return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

Text format_float(double value, const FormatSpec& spec, Heap& heap) {
    const bool negative = std::signbit(value) && !std::isnan(value);
    const double magnitude = std::isnan(value) ? value : std::fabs(value);
    char type = spec.type;
    std::string text;
    if (type == 0 && !spec.precision) {
        text = print_float(magnitude);
    } else if (type == 0) { // like g, but never without a digit behind the point
        const int precision = std::max(*spec.precision, 1);
        const std::string scientific = print_double("", precision - 1, 'e', magnitude);
        const size_t e = scientific.find('e');
        const int exponent = e == std::string::npos ? 0 : std::stoi(scientific.substr(e + 1));
        if (e != std::string::npos && (exponent < -4 || exponent >= precision - 1)) {
            std::string mantissa = scientific.substr(0, e);
            if (mantissa.find('.') != std::string::npos) {
                while (mantissa.back() == '0')
                    mantissa.pop_back();
                if (mantissa.back() == '.')
                    mantissa.pop_back();
            }
            text = mantissa + scientific.substr(e);
        } else {
            text = print_double("", precision, 'g', magnitude);
            if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos)
                text += ".0";
        }
    } else {
        const bool percent = type == '%';
        if (percent || type == 'n')
            type = percent ? 'f' : 'g';
        text = print_double(spec.alternate ? "#" : "", spec.precision.value_or(6), type,
                            percent ? magnitude * 100 : magnitude);
        if (percent)
            text += "%";
    }
    const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
    return lay_out_number(sign_text(negative, spec.sign), text.substr(0, whole), text.substr(whole), spec, 3,
                          heap);
}

Text format_integer(const Value& value, const FormatSpec& spec, Heap& heap) {
    const Integer number = value.integer();
    if (spec.type == 'e' || spec.type == 'E' || spec.type == 'f' || spec.type == 'F' || spec.type == 'g' ||
        spec.type == 'G' || spec.type == '%')
        return format_float(value.number(), spec, heap);
    if (spec.precision)
        throw Fault("Precision not allowed in integer format specifier");
    if (spec.type == 'c') {
        std::string character;
        if (number < 0 || number > 0x10FFFF)
            throw Fault("%c arg not in range(0x110000)");
        append_code_point(character, static_cast<char32_t>(number));
        return pad(Text(character, false), spec.width, spec.align ? spec.align : '<', spec.fill, heap);
    }
    const unsigned base = spec.type == 'b'                       ? 2
                          : spec.type == 'o'                     ? 8
                          : spec.type == 'x' || spec.type == 'X' ? 16
                                                                 : 10;
    std::string prefix = sign_text(number < 0, spec.sign);
    if (spec.alternate && base != 10)
        prefix += std::string("0") + spec.type;
    return lay_out_number(prefix, digits_of(magnitude(number), base, spec.type == 'X'), "", spec,
                          base == 10 ? 3 : 4, heap);
}

[[noreturn]] void unknown_type(char type, const Value& value) {
    throw Fault(std::string("Unknown format code '") + type + "' for object of type '" + type_name(value) +
                "'");
}

} // namespace

int checked_precision(Integer precision) {
    if (precision < 0 || precision > max_precision)
        throw Fault("a precision of more than " + std::to_string(max_precision) + " digits is not supported");
    return static_cast<int>(precision);
}

FormatSpec parse_format_spec(const Text& text) {
    FormatSpec spec;
    const std::string& bytes = text.bytes();
    size_t at = 0;
    size_t after_first = 0;
    if (!bytes.empty())
        next_code_point(bytes, after_first);
    if (after_first < bytes.size() && is_align(bytes[after_first])) {
        spec.fill = text.substr(0, after_first);
        spec.align = bytes[after_first];
        at = after_first + 1;
    } else if (!bytes.empty() && is_align(bytes[0])) {
        spec.align = bytes[0];
        at = 1;
    }
    const auto skip = [&](char c) {
        const bool there = at < bytes.size() && bytes[at] == c;
        at += there ? 1 : 0;
        return there;
    };
    for (const char sign : {'+', '-', ' '})
        if (skip(sign)) {
            spec.sign = sign;
            break;
        }
    skip('z');
    spec.alternate = skip('#');
    if (skip('0') && spec.align == 0) {
        spec.fill = Text("0", false);
        spec.align = '0'; // zeros come after the sign of numbers, and behind texts
    }
    const auto number = [&] {
        Integer value = 0;
        for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at)
            value = std::min<Integer>(value * 10 + (bytes[at] - '0'), Integer(1) << 60);
        return value;
    };
    spec.width = number();
    if (skip(','))
        spec.grouping = ',';
    else if (skip('_'))
        spec.grouping = '_';
    if (skip('.')) {
        if (at >= bytes.size() || bytes[at] < '0' || bytes[at] > '9')
            throw Fault("Format specifier missing precision");
        spec.precision = checked_precision(std::min<Integer>(number(), Integer(1) << 40));
    }
    if (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80)
        spec.type = bytes[at++];
    if (at != bytes.size())
        throw Fault("Invalid format specifier " + in_quotes(bytes));
    return spec;
}

Text format_value(const Value& value, const FormatSpec& given, Heap& heap) {
    FormatSpec spec = given;
    if (value.is_number()) {
        static constexpr std::string_view integer_types = "bcdnoxXeEfFgG%";
        static constexpr std::string_view float_types = "eEfFgGn%";
        if (spec.align == '0')
            spec.align = '=';
        const auto& types = value.is_float() ? float_types : integer_types;
        if (spec.type != 0 && types.find(spec.type) == std::string_view::npos)
            unknown_type(spec.type, value);
        return value.is_float() ? format_float(value.number(), spec, heap)
                                : format_integer(value, spec, heap);
    }
    if (!value.is_string())
        throw Fault("unsupported format string passed to " + type_name(value) + ".__format__");
    if (spec.align == '0')
        spec.align = '<';
    if (spec.type != 0 && spec.type != 's')
        unknown_type(spec.type, value);
    if (spec.align == '=')
        throw Fault("'=' alignment not allowed in string format specifier");
    if (spec.sign != '-' || spec.alternate || spec.grouping)
        throw Fault("signs and separators are not allowed in the format specifier of a string");
    Text text = value.text();
    if (spec.precision) {
        size_t end = 0;
        for (int i = 0; i < *spec.precision && end < text.size(); ++i)
            next_code_point(text.bytes(), end);
        text = text.substr(0, end);
    }
    return pad(text, spec.width, spec.align ? spec.align : '<', spec.fill, heap);
}

} // namespace orrery::jinja
