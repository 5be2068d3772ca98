#include "engine/text/jinja/format.h"

#include "engine/text/jinja/format_spec.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"
#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <cmath>

namespace orrery::jinja {

namespace {

bool is_ascii_digit(char c) {
    return c >= '0' && c <= '9';
}

/// repr() with everything beyond ASCII escaped (the conversion !a).
Text represent_ascii(const Value& value, Heap& heap) {
    const Text text = represent(value, heap);
    Text out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = next_code_point(text.bytes(), at);
        if (c < 0x80) {
            out.append(text, begin, at - begin);
            continue;
        }
        char escape[16];
        std::snprintf(escape, sizeof escape,
                      c < 0x100     ? "\\x%02x"
                      : c < 0x10000 ? "\\u%04x"
                                    : "\\U%08x",
                      static_cast<unsigned>(c));
        out.append(escape, text.trusted_at(begin));
    }
    return out;
}

/// A text with the trust it has, escaped where it goes into Markup.
Text for_format(const Value& format, const Value& value, Heap& heap) {
    const Text text = print(value, heap);
    return format.is_markup() && !value.is_markup() ? escape_html(text) : text;
}

class PercentFormatter {
public:
    PercentFormatter(Interpreter& interpreter, const Value& format, const Value& arguments)
        : heap_(interpreter.heap()), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

    Value run() {
        const Text& text = format_.text();
        while (at_ < bytes_.size()) {
            const size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
            out_.append(text, at_, percent - at_);
            at_ = percent;
            if (at_ < bytes_.size())
                field();
            heap_.check_memory(2 * out_.size());
        }
        const Sequence* tuple = arguments_.sequence();
        const bool is_tuple = tuple && tuple->kind() == Sequence::Kind::tuple;
        const bool is_mapping =
            !is_tuple && (arguments_.dict() || arguments_.sequence() || arguments_.is_undefined());
        if (is_tuple ? next_ < tuple->items().size() : !is_mapping && next_ == 0)
            throw Fault("not all arguments converted during string formatting");
        return heap_.string(std::move(out_), format_.is_markup());
    }

private:
    char peek() const {
        if (at_ >= bytes_.size())
            throw Fault("incomplete format");
        return bytes_[at_];
    }

    Value next_argument() {
        const Sequence* tuple = arguments_.sequence();
        if (tuple && tuple->kind() == Sequence::Kind::tuple) {
            if (next_ >= tuple->items().size())
                throw Fault("not enough arguments for format string");
            return tuple->items()[next_++];
        }
        if (next_++ > 0)
            throw Fault("not enough arguments for format string");
        return arguments_;
    }

    Integer number(bool& is_left) {
        if (at_ < bytes_.size() && bytes_[at_] == '*') {
            ++at_;
            const Value value = next_argument();
            if (!value.is_integral())
                throw Fault("* wants int");
            is_left |= value.integer() < 0;
            return static_cast<Integer>(
                std::min(magnitude(value.integer()), static_cast<unsigned __int128>(1) << 60));
        }
        Integer value = 0;
        for (; at_ < bytes_.size() && is_ascii_digit(bytes_[at_]); ++at_)
            value = std::min<Integer>(value * 10 + (bytes_[at_] - '0'), Integer(1) << 60);
        return value;
    }

    void field() {
        const size_t percent = at_++;
        if (peek() == '%') {
            out_.append(format_.text(), percent, 1);
            ++at_;
            return;
        }
        std::optional<Value> named;
        if (peek() == '(') {
            const size_t close = bytes_.find(')', at_);
            if (close == std::string::npos)
                throw Fault("incomplete format key");
            if (!arguments_.dict())
                throw Fault("format requires a mapping");
            const Value* found = arguments_.dict()->find(bytes_.substr(at_ + 1, close - at_ - 1));
            if (!found)
                throw Fault("there is no key " + in_quotes(bytes_.substr(at_ + 1, close - at_ - 1)) +
                            " to format");
            named = *found;
            at_ = close + 1;
        }
        FormatSpec spec;
        bool left = false;
        bool zero = false;
        for (;; ++at_) {
            const char flag = peek();
            if (flag == '-')
                left = true;
            else if (flag == '+')
                spec.sign = '+';
            else if (flag == ' ')
                spec.sign = spec.sign == '+' ? '+' : ' ';
            else if (flag == '#')
                spec.alternate = true;
            else if (flag == '0')
                zero = true;
            else
                break;
        }
        spec.width = number(left);
        bool has_precision = false;
        Integer precision = 0;
        if (peek() == '.') {
            ++at_;
            bool negative = false;
            precision = number(negative);
            if (negative)
                precision = 0;
            has_precision = true;
        }
        while (peek() == 'h' || peek() == 'l' || peek() == 'L')
            ++at_;
        const char type = peek();
        ++at_;
        const Value value = named ? *named : next_argument();
        spec.align = left ? '<' : '>';
        if (zero && !left && type != 's' && type != 'r' && type != 'a' && type != 'c') {
            spec.align = '=';
            spec.fill = Text("0", false);
        }
        if (has_precision)
            spec.precision = checked_precision(std::min<Integer>(precision, Integer(1) << 40));
        convert(type, value, spec);
    }

    void convert(char type, const Value& value, FormatSpec& spec) {
        switch (type) {
        case 's':
        case 'r':
        case 'a': {
            spec.sign = '-';
            spec.alternate = false;
            const Text text = type == 's'   ? for_format(format_, value, heap_)
                              : type == 'r' ? represent(value, heap_)
                                            : represent_ascii(value, heap_);
            out_.append(format_value(heap_.string(text), spec, heap_));
            return;
        }
        case 'c': {
            if (value.is_string() && value.text().length() == 1) {
                out_.append(pad(value.text(), spec.width, spec.align, spec.fill, heap_));
                return;
            }
            if (!value.is_integral())
                throw Fault("%c requires int or char");
            spec.type = 'c';
            spec.precision.reset();
            out_.append(format_value(Value(value.integer()), spec, heap_));
            return;
        }
        case 'd':
        case 'i':
        case 'u':
            if (value.is_undefined())
                use_undefined(value);
            if (!value.is_number())
                throw Fault(std::string("%") + type + " format: a real number is required, not " +
                            type_name(value));
            integer(value.is_float() ? truncated(value.number()) : value, 'd', spec);
            return;
        case 'x':
        case 'X':
        case 'o':
            if (!value.is_integral())
                throw Fault(std::string("%") + type + " format: an integer is required, not " +
                            type_name(value));
            integer(value, type, spec);
            return;
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
            if (value.is_undefined())
                use_undefined(value);
            if (!value.is_number())
                throw Fault("must be real number, not " + type_name(value));
            spec.type = type;
            out_.append(format_value(Value(value.number()), spec, heap_));
            return;
        default:
            throw Fault("unsupported format character " + in_quotes(std::string(1, type)));
        }
    }

    static Value truncated(double value) {
        if (!std::isfinite(value) || std::fabs(value) > 1e37)
            throw Fault("cannot convert the float " + print_float(value) + " to an integer");
        return static_cast<Integer>(value);
    }

    /// Precision is the least number of digits here.
    void integer(const Value& value, char type, FormatSpec spec) {
        const std::optional<int> precision = std::exchange(spec.precision, std::nullopt);
        spec.type = type;
        if (!precision) {
            out_.append(format_value(Value(value.integer()), spec, heap_));
            return;
        }
        FormatSpec inner = spec;
        inner.fill = Text("0", false);
        inner.align = '=';
        inner.width = *precision + (value.integer() < 0 || spec.sign != '-' ? 1 : 0);
        const Text digits = format_value(Value(value.integer()), inner, heap_);
        out_.append(pad(digits, spec.width, spec.align == '=' ? '>' : spec.align, spec.fill, heap_));
    }

    Heap& heap_;
    const Value& format_;
    const std::string& bytes_;
    const Value& arguments_;
    Text out_;
    size_t at_ = 0;
    size_t next_ = 0;
};

class BraceFormatter {
public:
    BraceFormatter(Interpreter& interpreter, const Value& format, const Arguments& arguments)
        : interpreter_(interpreter), format_(format), arguments_(arguments) {}

    Text run(const Text& format, int depth) {
        if (depth > 2)
            throw Fault("Max string recursion exceeded");
        const std::string& bytes = format.bytes();
        Text out;
        for (size_t at = 0; at < bytes.size();) {
            const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
            out.append(format, at, brace - at);
            at = brace;
            if (at >= bytes.size())
                break;
            if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
                out.append(format, at, 1);
                at += 2;
                continue;
            }
            if (bytes[at] == '}')
                throw Fault("Single '}' encountered in format string");
            const size_t end = matching_brace(bytes, at);
            out.append(field(format.substr(at + 1, end - at - 1), depth));
            interpreter_.heap().check_memory(2 * out.size());
            at = end + 1;
        }
        return out;
    }

private:
    static size_t matching_brace(const std::string& bytes, size_t at) {
        int open = 0;
        for (; at < bytes.size(); ++at) {
            if (bytes[at] == '{')
                ++open;
            else if (bytes[at] == '}' && --open == 0)
                return at;
        }
        throw Fault("expected '}' before end of string");
    }

    Text field(const Text& field, int depth) {
        const std::string& bytes = field.bytes();
        // Brackets in the name may hold ! and :
        size_t end = 0;
        for (bool in_brackets = false; end < bytes.size(); ++end) {
            if (bytes[end] == '[')
                in_brackets = true;
            else if (bytes[end] == ']')
                in_brackets = false;
            else if (!in_brackets && (bytes[end] == '!' || bytes[end] == ':'))
                break;
        }
        Value value = look_up(bytes.substr(0, end));
        char conversion = 0;
        if (end < bytes.size() && bytes[end] == '!') {
            if (end + 1 >= bytes.size())
                throw Fault("end of string while looking for conversion specifier");
            conversion = bytes[end + 1];
            end += 2;
            if (end < bytes.size() && bytes[end] != ':')
                throw Fault("expected ':' after conversion specifier");
        }
        Heap& heap = interpreter_.heap();
        if (conversion == 'r')
            value = heap.string(represent(value, heap));
        else if (conversion == 's')
            value = heap.string(print(value, heap));
        else if (conversion == 'a')
            value = heap.string(represent_ascii(value, heap));
        else if (conversion != 0)
            throw Fault("Unknown conversion specifier " + in_quotes(std::string(1, conversion)));
        const Text spec = end < bytes.size() ? run(field.substr(end + 1), depth + 1) : Text();
        if (spec.empty())
            return for_format(format_, value, heap);
        const Text text = format_value(value, parse_format_spec(spec), heap);
        return format_.is_markup() && !value.is_markup() ? escape_html(text) : text;
    }

    Value look_up(const std::string& name) {
        size_t at = std::min(name.find_first_of(".["), name.size());
        const std::string first = name.substr(0, at);
        Value value;
        const bool is_number = !first.empty() && std::all_of(first.begin(), first.end(), is_ascii_digit);
        if (first.empty() || is_number) {
            if (first.empty() ? numbering_ == Numbering::manual : numbering_ == Numbering::automatic)
                throw Fault("cannot mix automatic field numbering and manual field specification");
            numbering_ = first.empty() ? Numbering::automatic : Numbering::manual;
            const size_t index = first.empty()      ? next_++
                                 : first.size() > 9 ? arguments_.positional.size()
                                                    : std::stoul(first);
            if (index >= arguments_.positional.size())
                throw Fault("Replacement index " + std::to_string(index) +
                            " out of range for positional args tuple");
            value = arguments_.positional[index];
        } else {
            const auto found = std::find_if(arguments_.named.begin(), arguments_.named.end(),
                                            [&](const auto& named) { return named.first == first; });
            if (found == arguments_.named.end())
                throw Fault("there is no argument " + in_quotes(first) + " to format");
            value = found->second;
        }
        while (at < name.size()) {
            const bool is_attribute = name[at] == '.';
            const size_t begin = at + 1;
            at =
                is_attribute ? std::min(name.find_first_of(".[", begin), name.size()) : name.find(']', begin);
            if (at == std::string::npos)
                throw Fault("Missing ']' in format string");
            const std::string part = name.substr(begin, at - begin);
            if (part.empty())
                throw Fault("Empty attribute in format string");
            if (is_attribute) {
                value = interpreter_.attribute(value, part);
                continue;
            }
            ++at;
            if (at < name.size() && name[at] != '.' && name[at] != '[')
                throw Fault("Only '.' or '[' may follow ']' in format field specifier");
            const bool is_index = part.size() < 18 && std::all_of(part.begin(), part.end(), is_ascii_digit);
            value = interpreter_.item(value, is_index ? Value(Integer(std::stoll(part)))
                                                      : interpreter_.heap().string(part));
        }
        return value;
    }

    enum class Numbering { undecided, automatic, manual };

    Interpreter& interpreter_;
    const Value& format_;
    const Arguments& arguments_;
    Numbering numbering_ = Numbering::undecided;
    size_t next_ = 0;
};

} // namespace

Value percent_format(Interpreter& interpreter, const Value& format, const Value& arguments) {
    return PercentFormatter(interpreter, format, arguments).run();
}

Value brace_format(Interpreter& interpreter, const Value& format, const Arguments& arguments) {
    Text text = BraceFormatter(interpreter, format, arguments).run(format.text(), 0);
    return interpreter.heap().string(std::move(text), format.is_markup());
}

} // namespace orrery::jinja
