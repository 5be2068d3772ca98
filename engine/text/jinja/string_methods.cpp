// Methods of str. Every one cuts, joins or maps Text, so that trust stays with each character.
#include "engine/text/jinja/attributes.h"
#include "engine/text/jinja/format.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"
#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <map>

namespace orrery::jinja {

namespace {

Value same_kind(Interpreter& interpreter, const Value& self, Text text) {
    return interpreter.heap().string(std::move(text), self.is_markup());
}

/// Texts that go into Markup are escaped.
Text argument_text(const Value& self, const Value& argument) {
    if (!argument.is_string())
        throw Fault("expected str, not " + type_name(argument));
    return self.is_markup() && !argument.is_markup() ? escape_html(argument.text()) : argument.text();
}

template <Text (*map)(const Text&)>
Value mapped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("str method", arguments, {});
    interpreter.heap().charge_steps(self.text().size() / 8);
    return same_kind(interpreter, self, map(self.text()));
}

// --- stripping ---

template <bool left, bool right>
Value stripped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("strip", arguments, {"chars"});
    const Text* characters = bound[0].is_none() ? nullptr : &bound.text(0);
    return same_kind(interpreter, self, strip(self.text(), characters, left, right, interpreter.heap()));
}

Value remove_prefix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("removeprefix", arguments, {"prefix"}, 1);
    const size_t size = self.bytes().starts_with(bound.text(0).bytes()) ? bound.text(0).size() : 0;
    return same_kind(interpreter, self, self.text().substr(size));
}

Value remove_suffix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("removesuffix", arguments, {"suffix"}, 1);
    const size_t size = self.bytes().ends_with(bound.text(0).bytes()) ? bound.text(0).size() : 0;
    return same_kind(interpreter, self, self.text().substr(0, self.text().size() - size));
}

// --- splitting and joining ---

Value list_of(Interpreter& interpreter, const Value& self, std::vector<Text> parts) {
    std::vector<Value> items;
    interpreter.heap().check_memory(parts.size() * sizeof(Value));
    for (Text& part : parts)
        items.push_back(same_kind(interpreter, self, std::move(part)));
    return interpreter.heap().list(std::move(items));
}

template <bool from_right>
Value split_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("split", arguments, {"sep", "maxsplit"});
    const Integer limit = bound.integer(1, -1);
    interpreter.heap().charge_steps(self.text().size() / 8);
    if (bound[0].is_none())
        return list_of(interpreter, self, split_space(self.text(), limit, from_right, interpreter.heap()));
    if (bound.text(0).empty())
        throw Fault("empty separator");
    interpreter.heap().charge_search(self.text().size(), bound.text(0).size());
    return list_of(interpreter, self,
                   split(self.text(), bound.text(0).bytes(), limit, from_right, interpreter.heap()));
}

Value split_lines_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("splitlines", arguments, {"keepends"});
    interpreter.heap().charge_steps(self.text().size() / 8);
    return list_of(interpreter, self, split_lines(self.text(), bound.flag(0, false), interpreter.heap()));
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("partition", arguments, {"sep"}, 1);
    const std::string& separator = bound.text(0).bytes();
    if (separator.empty())
        throw Fault("empty separator");
    const Text& text = self.text();
    interpreter.heap().charge_search(text.size(), separator.size());
    const size_t at = from_right ? text.bytes().rfind(separator) : text.bytes().find(separator);
    std::vector<Text> parts;
    if (at != std::string::npos)
        parts = {text.substr(0, at), text.substr(at, separator.size()), text.substr(at + separator.size())};
    else if (from_right)
        parts = {Text(), Text(), text};
    else
        parts = {text, Text(), Text()};
    std::vector<Value> items;
    for (Text& part : parts)
        items.push_back(same_kind(interpreter, self, std::move(part)));
    return interpreter.heap().tuple(std::move(items));
}

Value join_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("join", arguments, {"iterable"}, 1);
    Text joined;
    bool first = true;
    for (const Value& item : iterate(bound[0], interpreter.heap())) {
        if (!first)
            joined.append(self.text());
        first = false;
        joined.append(argument_text(self, item));
        interpreter.heap().check_memory(2 * joined.size());
    }
    return same_kind(interpreter, self, std::move(joined));
}

Value replace_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
    return same_kind(interpreter, self,
                     replace(self.text(), argument_text(self, bound[0]).bytes(),
                             argument_text(self, bound[1]), bound.integer(2, -1), interpreter.heap()));
}

Value expand_tabs(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("expandtabs", arguments, {"tabsize"});
    const Integer size = bound.integer(0, 8);
    Text out;
    Integer column = 0;
    const Text& text = self.text();
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = next_code_point(text.bytes(), at);
        if (c == '\t') {
            const Integer spaces = size > 0 ? size - column % size : 0;
            if (spaces > Integer(interpreter.heap().limits().memory_bytes))
                throw Fault("the tabs are too wide");
            interpreter.heap().check_memory(2 * (out.size() + static_cast<size_t>(spaces)));
            out.append(std::string(static_cast<size_t>(spaces), ' '), text.trusted_at(begin));
            column += spaces;
        } else {
            out.append(text, begin, at - begin);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    return same_kind(interpreter, self, std::move(out));
}

// --- searching ---

/// The part of a text that start and end (code points, as in a slice) leave, in bytes; nothing where start
/// lies behind the end.
struct Window {
    size_t begin;
    size_t end;
    bool is_there;
};

Window window(const Text& text, const Bound& bound, size_t start_at, size_t stop_at, Heap& heap) {
    if (!bound.has(start_at) && !bound.has(stop_at))
        return {0, text.size(), true};
    heap.check_memory(sizeof(size_t) * text.size());
    const auto offsets = text.offsets();
    const Integer count = Integer(offsets.size() - 1);
    const auto value = [&](size_t parameter, Integer fallback) {
        Integer at = bound[parameter].is_none() ? fallback : bound.integer(parameter, fallback);
        if (at < 0)
            at = std::max<Integer>(at + count, 0);
        return at;
    };
    const Integer start = value(start_at, 0);
    const Integer stop = std::min(value(stop_at, count), count);
    if (start > stop)
        return {0, 0, false};
    return {offsets[static_cast<size_t>(start)], offsets[static_cast<size_t>(stop)], true};
}

template <bool prefix>
Value has_affix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound(prefix ? "startswith" : "endswith", arguments, {"affix", "start", "end"}, 1);
    const Window part = window(self.text(), bound, 1, 2, interpreter.heap());
    const std::string_view view = std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
    const auto matches = [&](const Value& affix) {
        if (affix.is_undefined())
            use_undefined(affix);
        if (!affix.is_string())
            throw Fault("startswith and endswith need a str or a tuple of str, not " + type_name(affix));
        return part.is_there && (prefix ? view.starts_with(affix.bytes()) : view.ends_with(affix.bytes()));
    };
    if (const Sequence* sequence = bound[0].sequence();
        sequence && sequence->kind() == Sequence::Kind::tuple) {
        interpreter.heap().charge_steps(sequence->items().size());
        return Value(std::any_of(sequence->items().begin(), sequence->items().end(), matches));
    }
    return Value(matches(bound[0]));
}

enum class Missing { gives_minus_one, fails };

template <bool from_right, Missing missing>
Value find_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
    const std::string& wanted = bound.text(0).bytes();
    const Window part = window(self.text(), bound, 1, 2, interpreter.heap());
    interpreter.heap().charge_search(self.text().size(), wanted.size());
    const std::string_view view = std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
    const size_t at = !part.is_there ? std::string::npos
                      : from_right   ? view.rfind(wanted)
                                     : view.find(wanted);
    if (at != std::string::npos)
        return Integer(self.text().substr(0, part.begin + at).length());
    if (missing == Missing::fails)
        throw Fault("substring not found");
    return Integer(-1);
}

Value count_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
    const std::string& wanted = bound.text(0).bytes();
    const Window part = window(self.text(), bound, 1, 2, interpreter.heap());
    interpreter.heap().charge_search(self.text().size(), wanted.size());
    if (!part.is_there)
        return Integer(0);
    const Text text = self.text().substr(part.begin, part.end - part.begin);
    if (wanted.empty())
        return Integer(text.length() + 1);
    Integer found = 0;
    for (size_t at = text.bytes().find(wanted); at != std::string::npos;
         at = text.bytes().find(wanted, at + wanted.size()))
        ++found;
    return found;
}

// --- padding ---

template <char side>
Value padded(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("justify", arguments, {"width", "fillchar"}, 1);
    const Text fill = bound.has(1) ? bound.text(1) : Text(" ", false);
    if (fill.length() != 1)
        throw Fault("The fill character must be exactly one character long");
    return same_kind(interpreter, self,
                     pad(self.text(), bound.integer(0, 0), side, fill, interpreter.heap()));
}

Value zero_fill(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("zfill", arguments, {"width"}, 1);
    const Text& text = self.text();
    const bool sign = !text.empty() && (text.bytes()[0] == '+' || text.bytes()[0] == '-');
    Text result = text.substr(0, sign ? 1 : 0);
    result.append(pad(text.substr(sign ? 1 : 0), bound.integer(0, 0) - (sign ? 1 : 0), '>', Text("0", false),
                      interpreter.heap()));
    return same_kind(interpreter, self, std::move(result));
}

// --- classes ---

/// Every character has the property, and there is at least one.
template <bool (*property)(char32_t)>
Value all_are(Interpreter&, const Value& self, const Arguments& arguments) {
    const Bound bound("str method", arguments, {});
    for (size_t at = 0; at < self.text().size();)
        if (!property(next_code_point(self.bytes(), at)))
            return Value(false);
    return Value(!self.text().empty());
}

Value is_ascii_method(Interpreter&, const Value& self, const Arguments&) {
    return Value(self.text().is_ascii());
}

Value is_printable_method(Interpreter&, const Value& self, const Arguments&) {
    for (size_t at = 0; at < self.text().size();)
        if (!is_printable(next_code_point(self.bytes(), at)))
            return Value(false);
    return Value(true);
}

Value is_lower_method(Interpreter&, const Value& self, const Arguments&) {
    return Value(is_lower_text(self.text()));
}
Value is_upper_method(Interpreter&, const Value& self, const Arguments&) {
    return Value(is_upper_text(self.text()));
}

Value is_title_method(Interpreter&, const Value& self, const Arguments&) {
    bool any = false;
    bool in_word = false;
    for (size_t at = 0; at < self.text().size();) {
        const char32_t c = next_code_point(self.bytes(), at);
        if (is_upper(c) || is_title(c)) {
            if (in_word)
                return Value(false);
            any = in_word = true;
        } else if (is_lower(c)) {
            if (!in_word)
                return Value(false);
        } else {
            in_word = false;
        }
    }
    return Value(any);
}

Value is_identifier_method(Interpreter&, const Value& self, const Arguments&) {
    bool first = true;
    for (size_t at = 0; at < self.text().size();) {
        const char32_t c = next_code_point(self.bytes(), at);
        if (c != '_' && !is_alpha(c) && (first || !is_decimal(c)))
            return Value(false);
        first = false;
    }
    return Value(!first);
}

Value format_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    return brace_format(interpreter, self, arguments);
}

Value format_map_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("format_map", arguments, {"mapping"}, 1);
    Arguments spread;
    if (const Dict* dict = bound[0].dict()) {
        for (const auto& [key, value] : dict->entries())
            if (key.is_string())
                spread.named.emplace_back(key.bytes(), value);
    } else {
        throw Fault("format_map() needs a mapping, not " + type_name(bound[0]));
    }
    return brace_format(interpreter, self, spread);
}

Value unsupported(Interpreter&, const Value&, const Arguments&) {
    throw Fault("str.encode, str.translate and str.maketrans are not supported");
}

} // namespace

Method find_string_method(std::string_view name) {
    static const std::map<std::string_view, Method> methods = {
        {"capitalize", mapped<to_capitalized>},
        {"casefold", mapped<to_casefold>},
        {"center", padded<'c'>},
        {"count", count_method},
        {"encode", unsupported},
        {"endswith", has_affix<false>},
        {"expandtabs", expand_tabs},
        {"find", find_method<false, Missing::gives_minus_one>},
        {"format", format_method},
        {"format_map", format_map_method},
        {"index", find_method<false, Missing::fails>},
        {"isalnum", all_are<is_alnum>},
        {"isalpha", all_are<is_alpha>},
        {"isascii", is_ascii_method},
        {"isdecimal", all_are<is_decimal>},
        {"isdigit", all_are<is_digit>},
        {"isidentifier", is_identifier_method},
        {"islower", is_lower_method},
        {"isnumeric", all_are<is_numeric>},
        {"isprintable", is_printable_method},
        {"isspace", all_are<is_space>},
        {"istitle", is_title_method},
        {"isupper", is_upper_method},
        {"join", join_method},
        {"ljust", padded<'<'>},
        {"lower", mapped<to_lower>},
        {"lstrip", stripped<true, false>},
        {"maketrans", unsupported},
        {"partition", partition<false>},
        {"removeprefix", remove_prefix},
        {"removesuffix", remove_suffix},
        {"replace", replace_method},
        {"rfind", find_method<true, Missing::gives_minus_one>},
        {"rindex", find_method<true, Missing::fails>},
        {"rjust", padded<'>'>},
        {"rpartition", partition<true>},
        {"rsplit", split_method<true>},
        {"rstrip", stripped<false, true>},
        {"split", split_method<false>},
        {"splitlines", split_lines_method},
        {"startswith", has_affix<true>},
        {"strip", stripped<true, true>},
        {"swapcase", mapped<swap_case>},
        {"title", mapped<to_title>},
        {"translate", unsupported},
        {"upper", mapped<to_upper>},
        {"zfill", zero_fill},
    };
    const auto found = methods.find(name);
    return found == methods.end() ? nullptr : found->second;
}

} // namespace orrery::jinja
