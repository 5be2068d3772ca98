#include "engine/text/jinja/tests.h"

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/text_operations.h"

#include <map>

namespace orrery::jinja {

namespace {

/// A test without arguments.
template <bool (*property)(const Value&)>
bool plain(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("the test", arguments, {});
    return property(value);
}

bool is_defined(const Value& value) {
    return !value.is_undefined();
}
bool is_undefined(const Value& value) {
    return value.is_undefined();
}
bool is_none(const Value& value) {
    return value.is_none();
}
bool is_boolean(const Value& value) {
    return value.is_bool();
}
bool is_true(const Value& value) {
    return value.is_bool() && value.boolean();
}
bool is_false(const Value& value) {
    return value.is_bool() && !value.boolean();
}
bool is_integer(const Value& value) {
    return value.is_integer();
}
bool is_float(const Value& value) {
    return value.is_float();
}
bool is_number(const Value& value) {
    return value.is_number();
}
bool is_string(const Value& value) {
    return value.is_string();
}
bool is_mapping(const Value& value) {
    return value.dict() != nullptr;
}
bool is_escaped(const Value& value) {
    return value.is_markup();
}
bool is_callable(const Value& value) {
    return value.as<Callable>() != nullptr || value.is_undefined();
}
bool is_lower_value(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("lower", arguments, {});
    return is_lower_text(print(value, interpreter.heap()));
}
bool is_upper_value(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("upper", arguments, {});
    return is_upper_text(print(value, interpreter.heap()));
}

/// Has a length and an index: texts, lists and, as in Jinja, dictionaries.
bool is_sequence(const Value& value) {
    if (value.is_undefined() || value.is_string() || value.dict())
        return true;
    const Sequence* sequence = value.sequence();
    return sequence && sequence->has_index();
}

template <Integer remainder>
bool has_remainder(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("the test", arguments, {});
    return equals(modulo(value, Value(Integer(2))), Value(remainder));
}

bool divisible_by(Interpreter&, const Value& value, const Arguments& arguments) {
    const Bound bound("divisibleby", arguments, {"num"}, 1);
    return equals(modulo(value, bound[0]), Value(Integer(0)));
}

template <bool (*compare)(const Value&, const Value&)>
bool comparison(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("the test", arguments, {"other"}, 1);
    interpreter.heap().charge_steps(comparison_cost(value, bound[0]));
    return compare(value, bound[0]);
}

bool not_equal(const Value& a, const Value& b) {
    return !equals(a, b);
}
bool less_than(const Value& a, const Value& b) {
    return less(a, b, "<");
}
bool at_most(const Value& a, const Value& b) {
    return less_or_equal(a, b, "<=");
}
bool greater_than(const Value& a, const Value& b) {
    return less(b, a, ">");
}
bool at_least(const Value& a, const Value& b) {
    return less_or_equal(b, a, ">=");
}

bool is_in(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
    const Bound bound("in", arguments, {"seq"}, 1);
    return contains(bound[0], value, interpreter.heap());
}

bool names_filter(Interpreter&, const Value& value, const Arguments&) {
    return value.is_string() && is_filter(value.bytes());
}

bool names_test(Interpreter&, const Value& value, const Arguments&) {
    return value.is_string() && is_test(value.bytes());
}

} // namespace

Test find_test(std::string_view name) {
    static const std::map<std::string_view, Test> tests = {
        {"!=", comparison<not_equal>},
        {"<", comparison<less_than>},
        {"<=", comparison<at_most>},
        {"==", comparison<equals>},
        {">", comparison<greater_than>},
        {">=", comparison<at_least>},
        {"boolean", plain<is_boolean>},
        {"callable", plain<is_callable>},
        {"defined", plain<is_defined>},
        {"divisibleby", divisible_by},
        {"eq", comparison<equals>},
        {"equalto", comparison<equals>},
        {"escaped", plain<is_escaped>},
        {"even", has_remainder<0>},
        {"false", plain<is_false>},
        {"filter", names_filter},
        {"float", plain<is_float>},
        {"ge", comparison<at_least>},
        {"greaterthan", comparison<greater_than>},
        {"gt", comparison<greater_than>},
        {"in", is_in},
        {"integer", plain<is_integer>},
        {"iterable", plain<is_iterable>},
        {"le", comparison<at_most>},
        {"lessthan", comparison<less_than>},
        {"lower", is_lower_value},
        {"lt", comparison<less_than>},
        {"mapping", plain<is_mapping>},
        {"ne", comparison<not_equal>},
        {"none", plain<is_none>},
        {"number", plain<is_number>},
        {"odd", has_remainder<1>},
        {"sameas", comparison<same>},
        {"sequence", plain<is_sequence>},
        {"string", plain<is_string>},
        {"test", names_test},
        {"true", plain<is_true>},
        {"undefined", plain<is_undefined>},
        {"upper", is_upper_value},
    };
    const auto found = tests.find(name);
    return found == tests.end() ? nullptr : found->second;
}

} // namespace orrery::jinja
