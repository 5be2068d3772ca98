#include "engine/text/jinja/attributes.h"

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::jinja {

namespace {

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> dict_changes = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> list_changes = {"append", "clear", "pop",    "reverse",
                                                          "insert", "sort",  "extend", "remove"};

Value unsafe(const Value& object, std::string_view name) {
    return Value::undefined("access to attribute " + in_quotes(name) + " of '" + type_name(object) +
                            "' object is unsafe.");
}

Value no_arguments(const char* function, const Arguments& arguments, Value result) {
    const Bound bound(function, arguments, {});
    return result;
}

// --- dict ---

Value dict_get(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("get", arguments, {"key", "default"}, 1);
    if (!arguments.named.empty())
        throw Fault("get() takes no keyword arguments");
    interpreter.heap().charge_steps(weight_of(bound[0]));
    const Value* found = self.dict()->find(bound[0]);
    return found ? *found : bound[1];
}

Value dict_view(Interpreter& interpreter, const Value& self, Sequence::Kind kind) {
    std::vector<Value> items;
    for (const auto& [key, value] : self.dict()->entries()) {
        if (kind == Sequence::Kind::keys)
            items.push_back(key);
        else if (kind == Sequence::Kind::values)
            items.push_back(value);
        else
            items.push_back(interpreter.heap().tuple({key, value}));
    }
    return interpreter.heap().sequence(kind, std::move(items));
}

Method dict_method(std::string_view name) {
    if (name == "get")
        return dict_get;
    if (name == "keys")
        return [](Interpreter& interpreter, const Value& self, const Arguments& arguments) {
            return no_arguments("keys", arguments, dict_view(interpreter, self, Sequence::Kind::keys));
        };
    if (name == "values")
        return [](Interpreter& interpreter, const Value& self, const Arguments& arguments) {
            return no_arguments("values", arguments, dict_view(interpreter, self, Sequence::Kind::values));
        };
    if (name == "items")
        return [](Interpreter& interpreter, const Value& self, const Arguments& arguments) {
            return no_arguments("items", arguments, dict_view(interpreter, self, Sequence::Kind::items));
        };
    if (name == "copy")
        return [](Interpreter& interpreter, const Value& self, const Arguments& arguments) {
            return no_arguments("copy", arguments, interpreter.heap().dict([&](Dict& copy) {
                for (const auto& [key, value] : self.dict()->entries())
                    copy.set(key, value);
            }));
        };
    if (name == "fromkeys")
        return [](Interpreter& interpreter, const Value&, const Arguments& arguments) {
            const Bound bound("fromkeys", arguments, {"iterable", "value"}, 1);
            const std::vector<Value> keys = iterate(bound[0], interpreter.heap());
            return interpreter.heap().dict([&](Dict& made) {
                for (const Value& key : keys)
                    made.set(key, bound[1]);
            });
        };
    return nullptr;
}

// --- list, tuple and range ---

Value sequence_count(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("count", arguments, {"value"}, 1);
    interpreter.heap().charge_steps(self.sequence()->weight());
    const auto& items = self.sequence()->items();
    return Integer(
        std::count_if(items.begin(), items.end(), [&](const Value& item) { return equals(item, bound[0]); }));
}

Value sequence_index(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
    interpreter.heap().charge_steps(self.sequence()->weight());
    const auto& items = self.sequence()->items();
    const Integer count = Integer(items.size());
    const auto clamp = [&](Integer at) { return std::clamp<Integer>(at < 0 ? at + count : at, 0, count); };
    const Integer stop = clamp(bound.integer(2, count));
    for (Integer i = clamp(bound.integer(1, 0)); i < stop; ++i)
        if (equals(items[static_cast<size_t>(i)], bound[0]))
            return i;
    throw Fault(represent(bound[0], interpreter.heap()).bytes() + " is not in the list");
}

Value list_copy(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
    return no_arguments("copy", arguments, interpreter.heap().list(self.sequence()->items()));
}

Method sequence_method(const Sequence& sequence, std::string_view name) {
    if (!sequence.has_index())
        return nullptr;
    if (name == "count")
        return sequence_count;
    if (name == "index")
        return sequence_index;
    if (name == "copy" && sequence.kind() == Sequence::Kind::list)
        return list_copy;
    return nullptr;
}

// --- numbers ---

std::optional<Value> number_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
    if (name == "real")
        return posit(object);
    if (name == "imag")
        return object.is_float() ? Value(0.0) : Value(Integer(0));
    if (object.is_integral() && name == "numerator")
        return posit(object);
    if (object.is_integral() && name == "denominator")
        return Value(Integer(1));
    Method method = nullptr;
    if (object.is_float() && name == "is_integer")
        method = [](Interpreter&, const Value& self, const Arguments& arguments) {
            return no_arguments(
                "is_integer", arguments,
                Value(std::isfinite(self.number()) && self.number() == std::floor(self.number())));
        };
    else if (object.is_integral() && name == "bit_length")
        method = [](Interpreter&, const Value& self, const Arguments& arguments) {
            Integer bits = 0;
            for (auto rest = magnitude(self.integer()); rest > 0; rest >>= 1)
                ++bits;
            return no_arguments("bit_length", arguments, Value(bits));
        };
    else if (name == "conjugate")
        method = [](Interpreter&, const Value& self, const Arguments& arguments) {
            return no_arguments("conjugate", arguments, posit(self));
        };
    if (!method)
        return std::nullopt;
    return Value(interpreter.heap().make<BoundMethod>(object, name, method));
}

} // namespace

std::optional<Value> python_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
    if (name.starts_with("__") && name.ends_with("__") && !object.as<Namespace>())
        return unsafe(object, name);
    if (Object* own = object.object())
        return own->attribute(name);
    if (object.is_number())
        return number_attribute(interpreter, object, name);
    Method method = nullptr;
    if (object.is_string()) {
        method = find_string_method(name);
    } else if (object.dict()) {
        if (is_one_of(name, dict_changes))
            return unsafe(object, name);
        method = dict_method(name);
    } else if (const Sequence* sequence = object.sequence()) {
        if (sequence->kind() == Sequence::Kind::list && is_one_of(name, list_changes))
            return unsafe(object, name);
        if (sequence->is_group && (name == "grouper" || name == "list"))
            return sequence->items()[name == "list" ? 1 : 0];
        method = sequence_method(*sequence, name);
    }
    if (!method)
        return std::nullopt;
    return Value(interpreter.heap().make<BoundMethod>(object, name, method));
}

} // namespace orrery::jinja
