#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"
#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <map>

namespace orrery::jinja {

namespace {

Value folded_case(Interpreter& interpreter, const Value& value) {
    return value.is_string() ? interpreter.heap().string(to_lower(value.text())) : value;
}

/// "a.b.0": attributes of attributes; none leaves the value itself.
class AttributePath {
public:
    AttributePath(const Value& path, Heap& heap) {
        if (path.is_string()) {
            for (const Text& part : split(path.text(), ".", -1, false, heap))
                parts_.push_back(part_of(part));
        } else if (!path.is_none()) {
            parts_.push_back(path);
        }
    }

    Value get(Interpreter& interpreter, Value value, const Value& fallback = Value()) const {
        for (const Value& part : parts_) {
            value = interpreter.item(value, part);
            if (value.is_undefined() && !fallback.is_none())
                value = fallback;
        }
        return value;
    }

private:
    static Value part_of(const Text& part) {
        const std::string& bytes = part.bytes();
        const bool is_index =
            !bytes.empty() && bytes.size() < 18 &&
            std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (is_index)
            return Integer(std::stoll(bytes));
        return String{std::make_shared<const Text>(part), false};
    }

    std::vector<Value> parts_;
};

void sort_values(std::vector<std::pair<Value, Value>>& keyed, bool reverse, Heap& heap) {
    const auto before = [&](const auto& a, const auto& b) {
        heap.charge_steps(comparison_cost(a.first, b.first));
        return less(a.first, b.first);
    };
    // Python reverses, sorts and reverses again, so that equal items keep their order.
    if (reverse)
        std::reverse(keyed.begin(), keyed.end());
    std::stable_sort(keyed.begin(), keyed.end(), before);
    if (reverse)
        std::reverse(keyed.begin(), keyed.end());
}

std::vector<Value> values_of(std::vector<std::pair<Value, Value>> keyed) {
    std::vector<Value> values;
    for (auto& [key, value] : keyed)
        values.push_back(std::move(value));
    return values;
}

Value sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
    const bool exact = bound.flag(1, false);
    std::vector<AttributePath> paths;
    if (bound[2].is_string())
        for (const Text& path : split(bound[2].text(), ",", -1, false, interpreter.heap()))
            paths.emplace_back(Value(String{std::make_shared<const Text>(path), false}), interpreter.heap());
    else
        paths.emplace_back(bound[2], interpreter.heap());
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : iterate(value, interpreter.heap())) {
        std::vector<Value> keys;
        for (const AttributePath& path : paths) {
            const Value key = path.get(interpreter, item);
            keys.push_back(exact ? key : folded_case(interpreter, key));
        }
        keyed.emplace_back(interpreter.heap().list(std::move(keys)), item);
    }
    sort_values(keyed, bound.flag(0, false), interpreter.heap());
    return interpreter.heap().list(values_of(std::move(keyed)));
}

Value dict_sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
    const std::string by = bound.has(1) ? bound.text(1).bytes() : "key";
    if (by != "key" && by != "value")
        throw Fault("You can only sort by either \"key\" or \"value\"");
    if (value.is_undefined())
        use_undefined(value);
    if (!value.dict())
        throw Fault("'" + type_name(value) + "' object has no attribute 'items'");
    std::vector<std::pair<Value, Value>> keyed;
    for (const auto& [key, item] : value.dict()->entries()) {
        const Value& sorted_by = by == "key" ? key : item;
        keyed.emplace_back(bound.flag(0, false) ? sorted_by : folded_case(interpreter, sorted_by),
                           interpreter.heap().tuple({key, item}));
    }
    sort_values(keyed, bound.flag(2, false), interpreter.heap());
    return interpreter.heap().list(values_of(std::move(keyed)));
}

Value unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
    const AttributePath path(bound[1], interpreter.heap());
    Dict seen;
    std::vector<Value> kept;
    for (const Value& item : iterate(value, interpreter.heap())) {
        const Value key = path.get(interpreter, item);
        const Value folded = bound.flag(0, false) ? key : folded_case(interpreter, key);
        interpreter.heap().charge_steps(weight_of(folded));
        if (!seen.find(folded)) {
            seen.set(folded, Value());
            kept.push_back(item);
        }
    }
    return interpreter.heap().generator(std::move(kept), "sync_do_unique");
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
    const AttributePath path(bound[1], interpreter.heap());
    std::optional<std::pair<Value, Value>> best; // key, value
    for (const Value& item : iterate(value, interpreter.heap())) {
        Value key = path.get(interpreter, item);
        if (!bound.flag(0, false))
            key = folded_case(interpreter, key);
        interpreter.heap().charge_steps(weight_of(key));
        if (!best || (largest ? less(best->first, key, ">") : less(key, best->first)))
            best.emplace(key, item);
    }
    return best ? best->second : Value::undefined("No aggregated item, sequence was empty.");
}

Value sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("sum", arguments, {"attribute", "start"});
    const AttributePath path(bound[0], interpreter.heap());
    Value total = bound.has(1) ? bound[1] : Value(Integer(0));
    if (total.is_string())
        throw Fault("sum() can't sum strings [use ''.join(seq) instead]");
    for (const Value& item : iterate(value, interpreter.heap()))
        total = add(total, path.get(interpreter, item), interpreter.heap());
    return total;
}

Value group_by(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
    const AttributePath path(bound[0], interpreter.heap());
    Heap& heap = interpreter.heap();
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& item : iterate(value, heap)) {
        const Value key = path.get(interpreter, item, bound[1]);
        keyed.emplace_back(bound.flag(2, false) ? key : folded_case(interpreter, key), item);
    }
    sort_values(keyed, false, heap);
    std::vector<Value> groups;
    for (size_t begin = 0; begin < keyed.size();) {
        size_t end = begin;
        std::vector<Value> members;
        for (; end < keyed.size() && equals(keyed[begin].first, keyed[end].first); ++end) {
            heap.charge_steps(comparison_cost(keyed[begin].first, keyed[end].first));
            members.push_back(keyed[end].second);
        }
        if (members.empty()) // a key that does not equal itself (NaN)
            members.push_back(keyed[end++].second);
        const Value key = path.get(interpreter, members.front(), bound[1]);
        const Value group = heap.tuple({key, heap.list(std::move(members))});
        group.sequence()->is_group = true;
        groups.push_back(group);
        begin = end;
    }
    return heap.list(std::move(groups));
}

Value join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("join", arguments, {"d", "attribute"});
    const AttributePath path(bound[1], interpreter.heap());
    const Text separator = bound.has(0) ? print(bound[0], interpreter.heap()) : Text();
    Text joined;
    bool first = true;
    for (const Value& item : iterate(value, interpreter.heap())) {
        if (!first)
            joined.append(separator);
        first = false;
        joined.append(print(path.get(interpreter, item), interpreter.heap()));
        interpreter.heap().check_memory(2 * joined.size());
    }
    return interpreter.heap().string(std::move(joined));
}

Value first(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("first", arguments, {});
    if (Sequence* sequence = value.sequence(); sequence && sequence->kind() == Sequence::Kind::generator) {
        const auto item = sequence->take_one();
        return item ? *item : Value::undefined("No first item, sequence was empty.");
    }
    if (value.sequence() && !value.sequence()->items().empty())
        return value.sequence()->items().front();
    if (value.is_string() && !value.text().empty())
        return interpreter.item(value, Value(Integer(0)));
    const std::vector<Value> items = iterate(value, interpreter.heap());
    return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("last", arguments, {});
    if (value.sequence() && !value.sequence()->has_length())
        throw Fault("'generator' object is not reversible");
    if (value.sequence() && !value.sequence()->items().empty())
        return value.sequence()->items().back();
    if (value.is_string() && !value.text().empty())
        return interpreter.item(value, Value(Integer(-1)));
    const std::vector<Value> items = iterate(value, interpreter.heap());
    return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value length(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("length", arguments, {});
    if (const auto count = length_of(value))
        return Integer(*count);
    if (value.object())
        if (const auto count = value.object()->attribute("length"))
            return *count;
    throw Fault("object of type '" + type_name(value) + "' has no len()");
}

Value list(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("list", arguments, {});
    return interpreter.heap().list(iterate(value, interpreter.heap()));
}

Value reverse(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("reverse", arguments, {});
    Heap& heap = interpreter.heap();
    if (value.is_string())
        return slice(value, Value(), Value(), Value(Integer(-1)), heap);
    std::vector<Value> items = iterate(value, heap);
    std::reverse(items.begin(), items.end());
    if (value.sequence() && !value.sequence()->has_length())
        return heap.list(std::move(items));
    Value made = heap.sequence(Sequence::Kind::generator, std::move(items));
    made.sequence()->display = "<list_reverseiterator object>";
    return made;
}

Value items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("items", arguments, {});
    std::vector<Value> pairs;
    if (const Dict* dict = value.dict()) {
        for (const auto& [key, item] : dict->entries())
            pairs.push_back(interpreter.heap().tuple({key, item}));
    } else if (!value.is_undefined()) {
        throw Fault("Can only get item pairs from a mapping.");
    }
    return interpreter.heap().generator(std::move(pairs), "do_items");
}

Value fallback(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("default", arguments, {"default_value", "boolean"});
    if (!value.is_undefined() && !(bound.flag(1, false) && !truth(value)))
        return value;
    return bound.has(0) ? bound[0] : interpreter.heap().string(Text());
}

Value attribute_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("attr", arguments, {"name"}, 1);
    if (value.dict() && !interpreter.attribute(value, bound.text(0).bytes()).object())
        return Value::undefined("'dict object' has no attribute " + in_quotes(bound.text(0).bytes()));
    return interpreter.attribute(value, bound.text(0).bytes());
}

Value batch(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
    Heap& heap = interpreter.heap();
    const Integer size = bound.integer(0, 1);
    std::vector<Value> rows;
    std::vector<Value> row;
    for (const Value& item : iterate(value, heap)) {
        if (Integer(row.size()) == size) {
            rows.push_back(heap.list(std::move(row)));
            row.clear();
        }
        row.push_back(item);
    }
    if (!row.empty()) {
        if (!bound[1].is_none() && Integer(row.size()) < size) {
            if (size > Integer(heap.limits().memory_bytes / sizeof(Value)))
                throw Fault("batch: a row of that many items is too large");
            heap.check_memory(static_cast<size_t>(size) * sizeof(Value));
            row.resize(static_cast<size_t>(size), bound[1]);
        }
        rows.push_back(heap.list(std::move(row)));
    }
    return heap.generator(std::move(rows), "sync_do_batch");
}

Value slices(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
    Heap& heap = interpreter.heap();
    const std::vector<Value> all = iterate(value, heap);
    const Integer count = bound.integer(0, 1);
    if (count == 0)
        throw Fault("integer division or modulo by zero");
    std::vector<Value> columns;
    const Integer size = Integer(all.size()) / count;
    const Integer with_extra = Integer(all.size()) % count;
    size_t begin = 0;
    for (Integer i = 0; i < count; ++i) {
        heap.charge_steps(1);
        const size_t end = begin + static_cast<size_t>(size + (i < with_extra ? 1 : 0));
        std::vector<Value> column(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                  all.begin() + static_cast<std::ptrdiff_t>(end));
        if (!bound[1].is_none() && i >= with_extra)
            column.push_back(bound[1]);
        columns.push_back(heap.list(std::move(column)));
        begin = end;
    }
    return heap.generator(std::move(columns), "sync_do_slice");
}

Value map_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    Heap& heap = interpreter.heap();
    std::vector<Value> mapped;
    if (!truth(value))
        return heap.generator({}, "sync_do_map");
    if (arguments.positional.empty() && !arguments.named.empty() &&
        std::any_of(arguments.named.begin(), arguments.named.end(),
                    [](const auto& named) { return named.first == "attribute"; })) {
        const Bound bound("map", arguments, {"attribute", "default"});
        const AttributePath path(bound[0], interpreter.heap());
        for (const Value& item : iterate(value, heap))
            mapped.push_back(path.get(interpreter, item, bound[1]));
        return heap.generator(std::move(mapped), "sync_do_map");
    }
    if (arguments.positional.empty())
        throw Fault("map requires a filter argument");
    if (!arguments.positional[0].is_string())
        throw Fault("map: the name of a filter must be a str");
    const std::string name = arguments.positional[0].bytes();
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : iterate(value, heap))
        mapped.push_back(interpreter.filter(name, item, rest));
    return heap.generator(std::move(mapped), "sync_do_map");
}

template <bool wanted, bool by_attribute>
Value select(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    Heap& heap = interpreter.heap();
    const char* function = by_attribute ? (wanted ? "sync_do_selectattr" : "sync_do_rejectattr")
                                        : (wanted ? "sync_do_select" : "sync_do_reject");
    if (!truth(value))
        return heap.generator({}, function);
    Arguments rest = arguments;
    Value path;
    if (by_attribute) {
        if (rest.positional.empty())
            throw Fault("Missing parameter for attribute name");
        path = rest.positional.front();
        rest.positional.erase(rest.positional.begin());
    }
    std::string test;
    if (!rest.positional.empty()) {
        if (!rest.positional.front().is_string())
            throw Fault("the name of a test must be a str");
        test = rest.positional.front().bytes();
        rest.positional.erase(rest.positional.begin());
    }
    const AttributePath attribute(path, heap);
    std::vector<Value> kept;
    for (const Value& item : iterate(value, heap)) {
        const Value tested = attribute.get(interpreter, item);
        if ((test.empty() ? truth(tested) : interpreter.test(test, tested, rest)) == wanted)
            kept.push_back(item);
    }
    return heap.generator(std::move(kept), function);
}

Value xml_attributes(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("xmlattr", arguments, {"autospace"});
    if (!value.dict())
        throw Fault("xmlattr needs a mapping, not " + type_name(value));
    Text out;
    for (const auto& [key, item] : value.dict()->entries()) {
        if (item.is_none() || item.is_undefined())
            continue;
        const Text name = print(key, interpreter.heap());
        if (name.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
            throw Fault("Invalid character in attribute name: " + in_quotes(name.bytes()));
        if (!out.empty() || bound.flag(0, true))
            out.append(" ", false);
        out.append(escape_html(name));
        out.append("=\"", false);
        out.append(item.is_markup() ? item.text() : escape_html(print(item, interpreter.heap())));
        out.append("\"", false);
    }
    return interpreter.heap().string(std::move(out));
}

} // namespace

Method find_sequence_filter(std::string_view name) {
    static const std::map<std::string_view, Method> filters = {
        {"attr", attribute_filter},
        {"batch", batch},
        {"count", length},
        {"d", fallback},
        {"default", fallback},
        {"dictsort", dict_sort},
        {"first", first},
        {"groupby", group_by},
        {"items", items},
        {"join", join},
        {"last", last},
        {"length", length},
        {"list", list},
        {"map", map_filter},
        {"max", extreme<true>},
        {"min", extreme<false>},
        {"reject", select<false, false>},
        {"rejectattr", select<false, true>},
        {"reverse", reverse},
        {"select", select<true, false>},
        {"selectattr", select<true, true>},
        {"slice", slices},
        {"sort", sort},
        {"sum", sum},
        {"unique", unique},
        {"xmlattr", xml_attributes},
    };
    const auto found = filters.find(name);
    return found == filters.end() ? nullptr : found->second;
}

} // namespace orrery::jinja
