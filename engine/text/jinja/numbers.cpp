#include "engine/text/jinja/numbers.h"

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace orrery::jinja {

namespace {

bool is_ascii_digit(char c) {
    return c >= '0' && c <= '9';
}

std::string stripped(const Text& text) {
    const std::string_view bytes = text.bytes();
    const auto is_blank = [](char c) {
        return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
    };
    size_t begin = 0;
    size_t end = bytes.size();
    while (begin < end && is_blank(bytes[begin]))
        ++begin;
    while (end > begin && is_blank(bytes[end - 1]))
        --end;
    return std::string(bytes.substr(begin, end - begin));
}

/// The text without underscores between digits, or nothing where one stands elsewhere.
std::optional<std::string> without_underscores(const std::string& text) {
    std::string out;
    const auto is_digit = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out.push_back(text[i]);
            continue;
        }
        if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
            return std::nullopt;
    }
    return out;
}

/// int(text, base) of Python, or nothing where that raises ValueError.
std::optional<Integer> parse_integer(const Text& text, Integer base) {
    auto clean = without_underscores(stripped(text));
    if (!clean || clean->empty())
        return std::nullopt;
    std::string_view rest = *clean;
    const bool negative = rest[0] == '-';
    if (negative || rest[0] == '+')
        rest.remove_prefix(1);
    const auto prefix = rest.size() > 1 && rest[0] == '0' ? static_cast<char>(rest[1] | 0x20) : '\0';
    const Integer implied = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (implied != 0 && (base == implied || base == 0)) {
        rest.remove_prefix(2);
        base = implied;
    } else if (base == 0) {
        if (rest.size() > 1 && rest[0] == '0' && rest.find_first_not_of('0') != std::string_view::npos)
            return std::nullopt;
        base = 10;
    }
    if (rest.empty())
        return std::nullopt;
    Integer value = 0;
    for (const char c : rest) {
        const int digit = is_ascii_digit(c)                        ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                                   : 99;
        if (digit >= base)
            return std::nullopt;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, Integer(digit), &value))
            throw Fault("the integer is too large");
    }
    return negative ? -value : value;
}

/// float(text) of Python, or nothing where that raises ValueError.
std::optional<double> parse_float(const Text& text) {
    auto clean = without_underscores(stripped(text));
    if (!clean || clean->empty())
        return std::nullopt;
    std::string_view rest = *clean;
    const bool negative = rest[0] == '-';
    if (negative || rest[0] == '+')
        rest.remove_prefix(1);
    if (rest.empty() || rest[0] == '-' || rest[0] == '+')
        return std::nullopt;
    double value = 0;
    std::string lower(rest);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    if (lower == "inf" || lower == "infinity") {
        value = std::numeric_limits<double>::infinity();
    } else if (lower == "nan") {
        return std::numeric_limits<double>::quiet_NaN();
    } else {
        if (!is_ascii_digit(lower[0]) && lower[0] != '.')
            return std::nullopt;
        const auto result = std::from_chars(lower.data(), lower.data() + lower.size(), value);
        if (result.ptr != lower.data() + lower.size() || result.ec == std::errc::invalid_argument)
            return std::nullopt;
        if (result.ec == std::errc::result_out_of_range)
            value = lower.find("e-") != std::string::npos ? 0.0 : std::numeric_limits<double>::infinity();
    }
    return negative ? -value : value;
}

Integer truncated(double value) {
    if (std::fabs(value) > 1e37)
        throw Fault("the integer is too large");
    return static_cast<Integer>(value);
}

/// The nearest float with `digits` decimals behind the point; a tie goes to the even one.
double rounded(double value, int digits) {
    if (!std::isfinite(value) || digits > 350)
        return value;
    if (digits >= 0) {
        std::array<char, 800> text;
        std::snprintf(text.data(), text.size(), "%.*f", digits,
                      value); // correctly rounded from the exact value
        return std::strtod(text.data(), nullptr);
    }
    if (digits < -308)
        return std::copysign(0.0, value);
    const double unit = std::pow(10.0, -digits);
    return std::nearbyint(value / unit) * unit;
}

Value default_of(const Bound& bound, size_t at, Value fallback) {
    return bound.has(at) ? bound[at] : fallback;
}

} // namespace

Value absolute(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("abs", arguments, {});
    if (value.is_integral())
        return value.integer() < 0 ? negate(value) : posit(value);
    if (value.is_float())
        return std::fabs(value.number());
    if (value.is_undefined())
        use_undefined(value);
    throw Fault("bad operand type for abs(): '" + type_name(value) + "'");
}

Value to_integer(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("int", arguments, {"default", "base"});
    const Value fallback = default_of(bound, 0, Integer(0));
    if (value.is_undefined())
        use_undefined(value);
    if (value.is_integral())
        return posit(value);
    if (value.is_string())
        if (const auto parsed = parse_integer(value.text(), bound.integer(1, 10)))
            return *parsed;
    std::optional<double> number;
    if (value.is_float())
        number = value.number();
    else if (value.is_string())
        number = parse_float(value.text());
    if (!number || !std::isfinite(*number)) {
        if (value.is_float() && std::isinf(value.number()))
            return fallback;
        return fallback;
    }
    return truncated(*number);
}

Value to_float(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("float", arguments, {"default"});
    const Value fallback = default_of(bound, 0, 0.0);
    if (value.is_undefined())
        use_undefined(value);
    if (value.is_number())
        return value.number();
    const auto parsed = value.is_string() ? parse_float(value.text()) : std::nullopt;
    return parsed ? Value(*parsed) : fallback;
}

Value round_filter(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("round", arguments, {"precision", "method"});
    const std::string method = bound.has(1) ? bound.text(1).bytes() : "common";
    if (method != "common" && method != "ceil" && method != "floor")
        throw Fault("method must be common, ceil or floor");
    if (value.is_undefined())
        use_undefined(value);
    if (!value.is_number())
        throw Fault("type " + type_name(value) + " cannot be rounded");
    const Integer wide = bound.integer(0, 0);
    const int precision = static_cast<int>(std::clamp<Integer>(wide, -400, 400));
    if (method == "common" && value.is_integral()) {
        if (precision >= 0)
            return posit(value);
        if (precision < -37)
            return Integer(0);
        const Integer unit = power(Value(Integer(10)), Value(Integer(-precision))).integer();
        const Integer quotient = floor_divide(value, Value(unit)).integer();
        const Integer remainder = value.integer() - quotient * unit;
        if (magnitude(value.integer()) >> 120 != 0)
            throw Fault("the integer is too large");
        const bool up = remainder * 2 > unit || (remainder * 2 == unit && quotient % 2 != 0);
        return (quotient + (up ? 1 : 0)) * unit;
    }
    if (method == "common")
        return rounded(value.number(), precision);
    const Value scale = power(Value(Integer(10)), Value(Integer(std::clamp(precision, -37, 37))));
    const double scaled = value.number() * scale.number();
    if (!std::isfinite(scaled))
        throw Fault("cannot round " + print_float(value.number()));
    return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale.number();
}

Value file_size(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("filesizeformat", arguments, {"binary"});
    const bool binary = bound.flag(0, false);
    std::optional<double> bytes;
    if (value.is_number())
        bytes = value.number();
    else if (value.is_string())
        bytes = parse_float(value.text());
    if (!bytes)
        throw Fault("could not convert to a number of bytes: " +
                    represent(value, interpreter.heap()).bytes());
    const double base = binary ? 1024 : 1000;
    if (*bytes == 1)
        return interpreter.heap().string("1 Byte");
    if (*bytes < base)
        return interpreter.heap().string(print_integer(truncated(*bytes)) + " Bytes");
    constexpr std::string_view units = "kMGTPEZY";
    double unit = base;
    for (size_t i = 0; i < units.size(); ++i) {
        unit *= base;
        if (*bytes >= unit && i + 1 < units.size())
            continue;
        std::array<char, 400> text;
        std::snprintf(text.data(), text.size(), "%.1f", base * *bytes / unit);
        const std::string prefix = binary ? std::string(1, static_cast<char>(std::toupper(units[i]))) + "iB"
                                          : std::string(1, units[i]) + "B";
        return interpreter.heap().string(std::string(text.data()) + " " + prefix);
    }
    return Value();
}

} // namespace orrery::jinja
