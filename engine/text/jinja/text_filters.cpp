#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/format.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json_text.h"
#include "engine/text/jinja/numbers.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"
#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <map>

namespace orrery::jinja {

namespace {

/// The value as a text; Markup stays Markup (Jinja's soft_str).
Value soft_text(Interpreter& interpreter, const Value& value) {
    return value.is_string() ? value : interpreter.heap().string(print(value, interpreter.heap()));
}

template <Text (*map)(const Text&)>
Value mapped(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("the filter", arguments, {});
    const Value text = soft_text(interpreter, value);
    return interpreter.heap().string(map(text.text()), text.is_markup());
}

Value to_text(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("string", arguments, {});
    return soft_text(interpreter, value);
}

/// Jinja's own title: letters after spaces and opening brackets, not after every character that is no letter.
Value title(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("title", arguments, {});
    const Value input = soft_text(interpreter, value);
    const Text& text = input.text();
    const auto is_break = [](char32_t c) {
        return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    };
    Text out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const bool breaks = is_break(next_code_point(text.bytes(), at));
        const size_t first_end = at;
        while (at < text.size()) {
            size_t next = at;
            if (is_break(next_code_point(text.bytes(), next)) != breaks)
                break;
            at = next;
        }
        out.append(to_upper(text.substr(begin, first_end - begin)));
        out.append(to_lower(text.substr(first_end, at - first_end)));
    }
    return interpreter.heap().string(std::move(out));
}

Value trim(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("trim", arguments, {"chars"});
    const Value text = soft_text(interpreter, value);
    const Text* characters = bound[0].is_none() ? nullptr : &bound.text(0);
    return interpreter.heap().string(strip(text.text(), characters, true, true, interpreter.heap()),
                                     text.is_markup());
}

Value replace_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
    const Integer count = bound[2].is_none() ? -1 : bound.integer(2, -1);
    return interpreter.heap().string(replace(print(value, interpreter.heap()),
                                             print(bound[0], interpreter.heap()).bytes(),
                                             print(bound[1], interpreter.heap()), count, interpreter.heap()));
}

Value center(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("center", arguments, {"width"});
    const Value text = soft_text(interpreter, value);
    return interpreter.heap().string(
        pad(text.text(), bound.integer(0, 80), 'c', Text(" ", false), interpreter.heap()), text.is_markup());
}

Value indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("indent", arguments, {"width", "first", "blank"});
    Heap& heap = interpreter.heap();
    if (!value.is_string())
        throw value.is_undefined() ? Fault(value.undefined_message())
                                   : Fault("indent needs a str, not " + type_name(value));
    const Text indention = bound.has(0) && bound[0].is_string()
                               ? bound[0].text()
                               : pad(Text(), bound.integer(0, 4), '<', Text(" ", false), heap);
    Text text = value.text();
    text.append("\n", false);
    const std::vector<Text> lines = split_lines(text, false, heap);
    Text out;
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0)
            out.append("\n", false);
        if (i > 0 && (bound.flag(2, false) || !lines[i].empty()))
            out.append(indention);
        out.append(lines[i]);
        heap.check_memory(2 * (out.size() + indention.size()));
    }
    if (!bound.flag(1, false))
        return heap.string(std::move(out), value.is_markup());
    Text result = indention;
    result.append(out);
    return heap.string(std::move(result), value.is_markup());
}

Value truncate(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
    const Text end = bound.has(2) ? bound.text(2) : Text("...", false);
    const Integer length = bound.integer(0, 255);
    const Integer leeway = bound[3].is_none() ? 5 : bound.integer(3, 5);
    const Integer kept = length - Integer(end.length());
    if (kept < 0 || leeway < 0)
        throw Fault("truncate: the length must be at least that of its end, and leeway not negative");
    const auto given = length_of(value);
    if (!given)
        throw Fault("object of type '" + type_name(value) + "' has no len()");
    if (Integer(*given) <= length + leeway)
        return value;
    if (!value.is_string())
        throw Fault("truncate needs a str, not " + type_name(value));
    Text text = slice(value, Value(), Value(kept), Value(), interpreter.heap()).text();
    if (!bound.flag(1, false))
        text = split(text, " ", 1, true, interpreter.heap()).front();
    text.append(end);
    return interpreter.heap().string(std::move(text), value.is_markup());
}

Value word_count(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("wordcount", arguments, {});
    const Value input = soft_text(interpreter, value);
    Integer words = 0;
    bool in_word = false;
    for (size_t at = 0; at < input.text().size();) {
        const char32_t c = next_code_point(input.bytes(), at);
        const bool is_word = c == '_' || is_alnum(c);
        words += is_word && !in_word ? 1 : 0;
        in_word = is_word;
    }
    return words;
}

Value format_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    Heap& heap = interpreter.heap();
    if (!arguments.positional.empty() && !arguments.named.empty())
        throw Fault("format: can't handle positional and keyword arguments at the same time");
    const Value values =
        arguments.named.empty() ? heap.tuple(arguments.positional) : heap.dict([&](Dict& dict) {
            for (const auto& [name, item] : arguments.named)
                dict.set(heap.string(name), item);
        });
    return percent_format(interpreter, soft_text(interpreter, value), values);
}

Value escape(Interpreter& interpreter, const Value& value, const Arguments&) {
    if (value.is_markup())
        return value;
    return interpreter.heap().string(escape_html(print(value, interpreter.heap())), true);
}

Value force_escape(Interpreter& interpreter, const Value& value, const Arguments&) {
    return interpreter.heap().string(escape_html(print(value, interpreter.heap())), true);
}

Value safe(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("safe", arguments, {});
    return interpreter.heap().string(print(value, interpreter.heap()), true);
}

/// Without comments and tags, and with one space for each run of whitespace.
Value strip_tags(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("striptags", arguments, {});
    const Text text = print(value, interpreter.heap());
    Text plain;
    for (size_t at = 0; at < text.size();) {
        const bool comment = text.bytes().compare(at, 4, "<!--") == 0;
        const size_t end =
            text.bytes()[at] == '<' ? text.bytes().find(comment ? "-->" : ">", at) : std::string::npos;
        if (end != std::string::npos) {
            at = end + (comment ? 3 : 1);
        } else {
            plain.append(text, at, 1);
            ++at;
        }
    }
    Text joined;
    for (const Text& word : split_space(plain, -1, false, interpreter.heap())) {
        if (!joined.empty())
            joined.append(" ", false);
        joined.append(word);
    }
    const std::pair<const char*, const char*> entities[] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}};
    for (const auto& [entity, character] : entities)
        joined = replace(joined, entity, Text(character, false), -1, interpreter.heap());
    return interpreter.heap().string(std::move(joined));
}

void percent_encode(const Text& text, bool keep_slash, Text& out) {
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text.bytes()[i]);
        const bool plain = (c < 0x80 && is_alnum(c)) || c == '_' || c == '.' || c == '-' || c == '~' ||
                           (keep_slash && c == '/');
        if (plain) {
            out.append(text, i, 1);
        } else {
            char escape[8];
            std::snprintf(escape, sizeof escape, "%%%02X", c);
            out.append(escape, text.trusted_at(i));
        }
    }
}

Value url_encode(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("urlencode", arguments, {});
    Text out;
    if (value.is_string() || !is_iterable(value)) {
        percent_encode(print(value, interpreter.heap()), true, out);
        return interpreter.heap().string(std::move(out));
    }
    std::vector<std::pair<Value, Value>> pairs;
    if (const Dict* dict = value.dict()) {
        pairs = dict->entries();
    } else {
        for (const Value& item : iterate(value, interpreter.heap())) {
            const std::vector<Value> both = iterate(item, interpreter.heap());
            if (both.size() != 2)
                throw Fault("urlencode needs pairs");
            pairs.emplace_back(both[0], both[1]);
        }
    }
    for (const auto& [key, item] : pairs) {
        if (!out.empty())
            out.append("&", false);
        Text encoded;
        percent_encode(print(key, interpreter.heap()), false, encoded);
        encoded.append("=", false);
        percent_encode(print(item, interpreter.heap()), false, encoded);
        out.append(replace(encoded, "%20", Text("+", false), -1, interpreter.heap()));
    }
    return interpreter.heap().string(std::move(out));
}

Value to_json(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
    Heap& heap = interpreter.heap();
    JsonLayout layout;
    layout.ascii_only = bound.flag(0, false);
    layout.sort_keys = bound.flag(3, false);
    if (bound[1].is_string())
        layout.indent = bound[1].text();
    else if (!bound[1].is_none())
        layout.indent = pad(Text(), bound.integer(1, 0), '<', Text(" ", false), heap);
    if (layout.indent)
        layout.item_separator = Text(",", false);
    if (!bound[2].is_none()) {
        const std::vector<Value> separators = iterate(bound[2], heap);
        if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
            throw Fault("tojson: separators must be two texts");
        layout.item_separator = separators[0].text();
        layout.key_separator = separators[1].text();
    }
    return heap.string(dump_json(value, layout, heap));
}

Value unsupported(Interpreter&, const Value&, const Arguments&) {
    throw Fault("the filters wordwrap, urlize, pprint and random are not supported in chat templates");
}

} // namespace

Method find_text_filter(std::string_view name) {
    static const std::map<std::string_view, Method> filters = {
        {"abs", absolute},
        {"capitalize", mapped<to_capitalized>},
        {"center", center},
        {"e", escape},
        {"escape", escape},
        {"filesizeformat", file_size},
        {"float", to_float},
        {"forceescape", force_escape},
        {"format", format_filter},
        {"indent", indent},
        {"int", to_integer},
        {"lower", mapped<to_lower>},
        {"pprint", unsupported},
        {"random", unsupported},
        {"replace", replace_filter},
        {"round", round_filter},
        {"safe", safe},
        {"string", to_text},
        {"striptags", strip_tags},
        {"title", title},
        {"tojson", to_json},
        {"trim", trim},
        {"truncate", truncate},
        {"upper", mapped<to_upper>},
        {"urlencode", url_encode},
        {"urlize", unsupported},
        {"wordcount", word_count},
        {"wordwrap", unsupported},
    };
    const auto found = filters.find(name);
    return found == filters.end() ? nullptr : found->second;
}

Method find_filter(std::string_view name) {
    const Method found = find_text_filter(name);
    return found ? found : find_sequence_filter(name);
}

} // namespace orrery::jinja
