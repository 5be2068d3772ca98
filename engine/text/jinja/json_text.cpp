#include "engine/text/jinja/json_text.h"

#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace orrery::jinja {

namespace {

Value import_at(const nlohmann::ordered_json& json, Heap& heap, bool trusted, int depth) {
    using Type = nlohmann::ordered_json::value_t;
    if (depth > heap.limits().nesting)
        throw Fault("the context is nested more than " + std::to_string(heap.limits().nesting) +
                    " levels deep");
    switch (json.type()) {
    case Type::null:
        return Value();
    case Type::boolean:
        return Value(json.get<bool>());
    case Type::number_integer:
        return Integer(json.get<int64_t>());
    case Type::number_unsigned:
        return Integer(json.get<uint64_t>());
    case Type::number_float:
        return json.get<double>();
    case Type::string:
        return heap.string(Text(valid_utf8(json.get_ref<const std::string&>()), trusted));
    case Type::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (const auto& item : json)
            items.push_back(import_at(item, heap, false, depth + 1));
        return heap.list(std::move(items));
    }
    case Type::object:
        return heap.dict([&](Dict& dict) {
            for (const auto& [key, value] : json.items())
                dict.set(heap.string(valid_utf8(key)), import_at(value, heap, false, depth + 1));
        });
    case Type::binary:
    case Type::discarded:
        break;
    }
    throw Fault("the context holds a value that is no JSON");
}

class Dumper {
public:
    Dumper(const JsonLayout& layout, Heap& heap) : layout_(layout), heap_(heap) {}

    Text out;

    void dump(const Value& value, int depth) {
        heap_.charge_steps(1);
        heap_.check_memory(2 * out.size());
        if (value.is_none())
            put("null");
        else if (value.is_bool())
            put(value.boolean() ? "true" : "false");
        else if (value.is_integer())
            put(print_integer(value.integer()));
        else if (value.is_float())
            put(number(value.number()));
        else if (value.is_string())
            string(value.text());
        else if (const Sequence* sequence = list_of(value))
            list(sequence->items(), depth);
        else if (value.dict())
            object(*value.dict(), depth);
        else
            throw Fault("Object of type " + type_name(value) + " is not JSON serializable");
    }

private:
    static const Sequence* list_of(const Value& value) {
        const Sequence* sequence = value.sequence();
        const bool is_list = sequence && (sequence->kind() == Sequence::Kind::list ||
                                          sequence->kind() == Sequence::Kind::tuple);
        return is_list ? sequence : nullptr;
    }

    void put(std::string_view text) { out.append(text, false); }

    static std::string number(double value) {
        if (std::isnan(value))
            return "NaN";
        if (std::isinf(value))
            return value < 0 ? "-Infinity" : "Infinity";
        return print_float(value);
    }

    void line(int depth) {
        if (!layout_.indent)
            return;
        put("\n");
        for (int i = 0; i < depth; ++i)
            out.append(*layout_.indent);
    }

    void list(const std::vector<Value>& items, int depth) {
        put("[");
        for (size_t i = 0; i < items.size(); ++i) {
            if (i > 0)
                out.append(layout_.item_separator);
            line(depth + 1);
            dump(items[i], depth + 1);
        }
        if (!items.empty())
            line(depth);
        put("]");
    }

    void object(const Dict& dict, int depth) {
        auto entries = dict.entries();
        if (layout_.sort_keys)
            std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
                heap_.charge_steps(comparison_cost(a.first, b.first));
                return less(a.first, b.first);
            });
        put("{");
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i > 0)
                out.append(layout_.item_separator);
            line(depth + 1);
            key(entries[i].first);
            out.append(layout_.key_separator);
            dump(entries[i].second, depth + 1);
        }
        if (!entries.empty())
            line(depth);
        put("}");
    }

    void key(const Value& key) {
        if (key.is_string())
            string(key.text());
        else if (key.is_none())
            put("\"null\"");
        else if (key.is_bool())
            put(key.boolean() ? "\"true\"" : "\"false\"");
        else if (key.is_integer())
            put("\"" + print_integer(key.integer()) + "\"");
        else if (key.is_float())
            put("\"" + number(key.number()) + "\"");
        else
            throw Fault("keys must be str, int, float, bool or None, not " + type_name(key));
    }

    void escape(char32_t unit, bool trusted) {
        char text[16];
        std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(unit));
        out.append(text, trusted);
    }

    void string(const Text& text) {
        heap_.charge_steps(text.size() / 64);
        put("\"");
        size_t plain = 0; // where the run without anything to escape began
        for (size_t at = 0; at < text.size();) {
            const size_t begin = at;
            const char32_t c = next_code_point(text.bytes(), at);
            if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !layout_.ascii_only || c == 0x7F))
                continue;
            const bool trusted = text.trusted_at(begin);
            out.append(text, plain, begin - plain);
            plain = at;
            if (c == '"' || c == '\\') {
                out.append("\\", trusted);
                out.append(text, begin, 1);
            } else if (c == '\n') {
                out.append("\\n", trusted);
            } else if (c == '\r') {
                out.append("\\r", trusted);
            } else if (c == '\t') {
                out.append("\\t", trusted);
            } else if (c == '\b') {
                out.append("\\b", trusted);
            } else if (c == '\f') {
                out.append("\\f", trusted);
            } else if (c >= 0x10000) {
                escape(0xD800 + ((c - 0x10000) >> 10), trusted);
                escape(0xDC00 + ((c - 0x10000) & 0x3FF), trusted);
            } else {
                escape(c, trusted);
            }
        }
        out.append(text, plain, text.size() - plain);
        put("\"");
    }

    const JsonLayout& layout_;
    Heap& heap_;
};

} // namespace

Value import_json(const nlohmann::ordered_json& json, Heap& heap, bool trusted) {
    return import_at(json, heap, trusted, 1);
}

Text dump_json(const Value& value, const JsonLayout& layout, Heap& heap) {
    Dumper dumper(layout, heap);
    dumper.dump(value, 0);
    return std::move(dumper.out);
}

} // namespace orrery::jinja
