#include "engine/text/jinja/operators.h"

#include "engine/text/jinja/printing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::jinja {

namespace {

/// The smaller of what a recursion over nested containers may do; heap limits keep data far below it.
constexpr int max_compare_depth = 1000;

bool both_sequences_of_kind(const Value& a, const Value& b, Sequence::Kind kind) {
    return a.sequence() && b.sequence() && a.sequence()->kind() == kind && b.sequence()->kind() == kind;
}

/// Lists compare with lists and tuples with tuples.
bool comparable_sequences(const Value& a, const Value& b) {
    return both_sequences_of_kind(a, b, Sequence::Kind::list) ||
           both_sequences_of_kind(a, b, Sequence::Kind::tuple) ||
           both_sequences_of_kind(a, b, Sequence::Kind::range);
}

/// −1, 0 or 1 for two numbers; nothing where one is no number.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral())
        return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
    const double x = a.number();
    const double y = b.number();
    if (std::isnan(x) || std::isnan(y))
        return std::nullopt;
    return x < y ? -1 : x > y ? 1 : 0;
}

bool equals_at(const Value& a, const Value& b, int depth) {
    if (depth > max_compare_depth)
        throw Fault("values are nested too deep to be compared");
    if (a.is_number() && b.is_number())
        return compare_numbers(a, b) == 0;
    if (a.is_string() && b.is_string())
        return a.bytes() == b.bytes();
    if (a.is_none() || b.is_none())
        return a.is_none() && b.is_none();
    if (a.is_undefined() || b.is_undefined())
        return a.is_undefined() && b.is_undefined();
    if (comparable_sequences(a, b)) {
        const auto& x = a.sequence()->items();
        const auto& y = b.sequence()->items();
        return x.size() == y.size() &&
               std::equal(x.begin(), x.end(), y.begin(),
                          [&](const Value& p, const Value& q) { return equals_at(p, q, depth + 1); });
    }
    if (a.dict() && b.dict()) {
        if (a.dict()->size() != b.dict()->size())
            return false;
        return std::all_of(a.dict()->entries().begin(), a.dict()->entries().end(), [&](const auto& entry) {
            const Value* other = b.dict()->find(entry.first);
            return other && equals_at(entry.second, *other, depth + 1);
        });
    }
    return same(a, b);
}

[[noreturn]] void refuse(const char* op, const Value& a, const Value& b) {
    if (a.is_undefined())
        use_undefined(a);
    if (b.is_undefined())
        use_undefined(b);
    throw Fault("unsupported operand type(s) for " + std::string(op) + ": '" + type_name(a) + "' and '" +
                type_name(b) + "'");
}

[[noreturn]] void too_large() {
    throw Fault("the integer is too large");
}

Value checked(Integer result, bool overflow) {
    if (overflow)
        too_large();
    return result;
}

bool fits_size(Integer value) {
    return value <= Integer(std::numeric_limits<int64_t>::max());
}

} // namespace

std::string type_name(const Value& value) {
    if (value.is_undefined())
        return "Undefined";
    if (value.is_none())
        return "NoneType";
    if (value.is_bool())
        return "bool";
    if (value.is_integer())
        return "int";
    if (value.is_float())
        return "float";
    if (value.is_string())
        return value.is_markup() ? "Markup" : "str";
    if (const Sequence* sequence = value.sequence())
        return sequence->python_name();
    if (value.dict())
        return "dict";
    return value.object()->python_name();
}

void use_undefined(const Value& value) {
    throw Fault(value.undefined_message());
}

bool truth(const Value& value) {
    if (value.is_undefined() || value.is_none())
        return false;
    if (value.is_bool())
        return value.boolean();
    if (value.is_integer())
        return value.integer() != 0;
    if (value.is_float())
        return value.number() != 0;
    if (value.is_string())
        return !value.text().empty();
    if (const Sequence* sequence = value.sequence())
        return !sequence->has_length() || !sequence->items().empty();
    if (const Dict* dict = value.dict())
        return dict->size() != 0;
    return true;
}

bool equals(const Value& a, const Value& b) {
    return equals_at(a, b, 0);
}

bool same(const Value& a, const Value& b) {
    if (a.is_number() && b.is_number())
        return a.is_bool() == b.is_bool() && a.is_float() == b.is_float() && compare_numbers(a, b) == 0;
    if (a.is_string() && b.is_string()) // Python shares equal texts or does not, as it likes
        return a.bytes() == b.bytes();
    return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined()) ||
           (a.sequence() && a.sequence() == b.sequence()) || (a.dict() && a.dict() == b.dict()) ||
           (a.object() && a.object() == b.object());
}

bool less(const Value& a, const Value& b, const char* op) {
    if (a.is_number() && b.is_number())
        return compare_numbers(a, b) == -1;
    if (a.is_string() && b.is_string())
        return a.bytes() < b.bytes(); // UTF-8 keeps the order of code points
    if (comparable_sequences(a, b) && a.sequence()->kind() != Sequence::Kind::range) {
        const auto& x = a.sequence()->items();
        const auto& y = b.sequence()->items();
        for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
            if (!equals(x[i], y[i]))
                return less(x[i], y[i], op);
        return x.size() < y.size();
    }
    if (a.is_undefined())
        use_undefined(a);
    if (b.is_undefined())
        use_undefined(b);
    throw Fault("'" + std::string(op) + "' not supported between instances of '" + type_name(a) + "' and '" +
                type_name(b) + "'");
}

bool less_or_equal(const Value& a, const Value& b, const char* op) {
    if (a.is_number() && b.is_number())
        return compare_numbers(a, b).value_or(1) <= 0; // nothing is ordered with a NaN
    return !less(b, a, op);
}

bool contains(const Value& container, const Value& item, Heap& heap) {
    if (container.is_string()) {
        if (!item.is_string()) {
            if (item.is_undefined())
                throw Fault("'in <string>' requires string as left operand, not Undefined");
            throw Fault("'in <string>' requires string as left operand, not " + type_name(item));
        }
        heap.charge_search(container.text().size(), item.text().size());
        return container.bytes().find(item.bytes()) != std::string::npos;
    }
    heap.charge_steps(weight_of(item));
    if (const Dict* dict = container.dict())
        return dict->find(item) != nullptr;
    heap.charge_steps(weight_of(container));
    for (const Value& candidate : iterate(container, heap))
        if (equals(candidate, item))
            return true;
    return false;
}

std::optional<size_t> length_of(const Value& value) {
    if (value.is_undefined())
        return 0;
    if (value.is_string())
        return value.text().length();
    if (const Sequence* sequence = value.sequence())
        return sequence->has_length() ? std::optional(sequence->items().size()) : std::nullopt;
    if (const Dict* dict = value.dict())
        return dict->size();
    return std::nullopt;
}

bool is_iterable(const Value& value) {
    return value.is_undefined() || value.is_string() || value.sequence() || value.dict() ||
           (value.object() && value.object()->attribute("__iter__"));
}

std::vector<Value> iterate(const Value& value, Heap& heap) {
    std::vector<Value> items;
    if (value.is_undefined())
        return items;
    if (value.is_string()) {
        const Text& text = value.text();
        heap.charge_steps(text.size());
        heap.check_memory(text.size() * (sizeof(Value) + 64));
        for (size_t at = 0; at < text.size();) {
            const size_t begin = at;
            next_code_point(text.bytes(), at);
            items.push_back(heap.string(text.substr(begin, at - begin), value.is_markup()));
        }
        return items;
    }
    if (Sequence* sequence = value.sequence()) {
        heap.charge_steps(1 + sequence->items().size());
        return sequence->take();
    }
    if (const Dict* dict = value.dict()) {
        heap.charge_steps(1 + dict->size());
        for (const auto& entry : dict->entries())
            items.push_back(entry.first);
        return items;
    }
    if (Object* object = value.object())
        if (const auto rest = object->attribute("__iter__"))
            return iterate(*rest, heap);
    throw Fault("'" + type_name(value) + "' object is not iterable");
}

Value add(const Value& a, const Value& b, Heap& heap) {
    if (a.is_integral() && b.is_integral()) {
        Integer result = 0;
        const bool overflow = __builtin_add_overflow(a.integer(), b.integer(), &result);
        return checked(result, overflow);
    }
    if (a.is_number() && b.is_number())
        return a.number() + b.number();
    if (a.is_string() && b.is_string()) {
        const bool markup = a.is_markup() || b.is_markup();
        heap.check_memory(2 * (a.text().size() + b.text().size()));
        Text result = markup && !a.is_markup() ? escape_html(a.text()) : a.text();
        result.append(markup && !b.is_markup() ? escape_html(b.text()) : b.text());
        return heap.string(std::move(result), markup);
    }
    for (const auto kind : {Sequence::Kind::list, Sequence::Kind::tuple})
        if (both_sequences_of_kind(a, b, kind)) {
            std::vector<Value> items = a.sequence()->items();
            items.insert(items.end(), b.sequence()->items().begin(), b.sequence()->items().end());
            return heap.sequence(kind, std::move(items));
        }
    if (b.is_undefined())
        use_undefined(b);
    if (a.is_string())
        throw Fault("can only concatenate str (not \"" + type_name(b) + "\") to str");
    refuse("+", a, b);
}

Value subtract(const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral()) {
        Integer result = 0;
        const bool overflow = __builtin_sub_overflow(a.integer(), b.integer(), &result);
        return checked(result, overflow);
    }
    if (a.is_number() && b.is_number())
        return a.number() - b.number();
    refuse("-", a, b);
}

Value multiply(const Value& a, const Value& b, Heap& heap) {
    if (a.is_integral() && b.is_integral()) {
        Integer result = 0;
        const bool overflow = __builtin_mul_overflow(a.integer(), b.integer(), &result);
        return checked(result, overflow);
    }
    if (a.is_number() && b.is_number())
        return a.number() * b.number();
    if (a.is_integral() && (b.is_string() || b.sequence()))
        return multiply(b, a, heap);
    if (b.is_integral() && a.is_string()) {
        const Integer times = std::max<Integer>(b.integer(), 0);
        const Text& text = a.text();
        if (text.empty() || times == 0)
            return heap.string(Text(), a.is_markup());
        if (!fits_size(times) || times > Integer(heap.limits().memory_bytes / text.size()))
            heap.check_memory(std::numeric_limits<size_t>::max() / 2);
        heap.check_memory(2 * text.size() * static_cast<size_t>(times));
        Text result;
        result.reserve(text.size() * static_cast<size_t>(times));
        for (Integer i = 0; i < times; ++i)
            result.append(text);
        return heap.string(std::move(result), a.is_markup());
    }
    if (b.is_integral() && a.sequence() && a.sequence()->has_index() &&
        a.sequence()->kind() != Sequence::Kind::range) {
        const Integer times = std::max<Integer>(b.integer(), 0);
        const auto& items = a.sequence()->items();
        std::vector<Value> result;
        if (!items.empty()) {
            if (!fits_size(times) ||
                times > Integer(heap.limits().memory_bytes / (items.size() * sizeof(Value))))
                heap.check_memory(std::numeric_limits<size_t>::max() / 2);
            heap.check_memory(items.size() * sizeof(Value) * static_cast<size_t>(times));
            for (Integer i = 0; i < times; ++i)
                result.insert(result.end(), items.begin(), items.end());
        }
        return heap.sequence(a.sequence()->kind(), std::move(result));
    }
    refuse("*", a, b);
}

Value divide(const Value& a, const Value& b) {
    if (!a.is_number() || !b.is_number())
        refuse("/", a, b);
    if (b.number() == 0)
        throw Fault("division by zero");
    return a.number() / b.number();
}

namespace {

/// Python's division of floats: the remainder has the sign of the divisor.
std::pair<double, double> float_divmod(double a, double b) {
    double remainder = std::fmod(a, b);
    double quotient = (a - remainder) / b;
    if (remainder != 0) {
        if ((b < 0) != (remainder < 0)) {
            remainder += b;
            quotient -= 1;
        }
    } else {
        remainder = std::copysign(0.0, b);
    }
    double floored = 0;
    if (quotient != 0) {
        floored = std::floor(quotient);
        if (quotient - floored > 0.5)
            floored += 1;
    } else {
        floored = std::copysign(0.0, a / b);
    }
    return {floored, remainder};
}

} // namespace

Value floor_divide(const Value& a, const Value& b) {
    if (!a.is_number() || !b.is_number())
        refuse("//", a, b);
    if (b.number() == 0)
        throw Fault("integer division or modulo by zero");
    if (!a.is_integral() || !b.is_integral())
        return float_divmod(a.number(), b.number()).first;
    const Integer x = a.integer();
    const Integer y = b.integer();
    if (y == -1)
        return negate(Value(x));
    const Integer quotient = x / y;
    return (x % y != 0 && (x < 0) != (y < 0)) ? quotient - 1 : quotient;
}

Value modulo(const Value& a, const Value& b) {
    if (!a.is_number() || !b.is_number())
        refuse("%", a, b);
    if (b.number() == 0)
        throw Fault("integer division or modulo by zero");
    if (!a.is_integral() || !b.is_integral())
        return float_divmod(a.number(), b.number()).second;
    const Integer y = b.integer();
    if (y == -1)
        return Integer(0);
    const Integer remainder = a.integer() % y;
    return (remainder != 0 && (remainder < 0) != (y < 0)) ? remainder + y : remainder;
}

Value power(const Value& a, const Value& b) {
    if (!a.is_number() || !b.is_number())
        refuse("** or pow()", a, b);
    if (a.is_integral() && b.is_integral() && b.integer() >= 0) {
        Integer result = 1;
        Integer base = a.integer();
        for (Integer exponent = b.integer(); exponent > 0; exponent >>= 1) {
            if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
                too_large();
            if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
                too_large();
        }
        return result;
    }
    const double x = a.number();
    const double y = b.number();
    if (x == 0 && y < 0)
        throw Fault("0.0 cannot be raised to a negative power");
    if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
        throw Fault("a negative number cannot be raised to a fractional power");
    const double result = std::pow(x, y);
    if (std::isinf(result) && std::isfinite(x) && std::isfinite(y))
        throw Fault("Numerical result out of range");
    return result;
}

Value negate(const Value& a) {
    if (a.is_integral()) {
        Integer result = 0;
        const bool overflow = __builtin_sub_overflow(Integer(0), a.integer(), &result);
        return checked(result, overflow);
    }
    if (a.is_float())
        return -a.number();
    if (a.is_undefined())
        use_undefined(a);
    throw Fault("bad operand type for unary -: '" + type_name(a) + "'");
}

Value posit(const Value& a) {
    if (a.is_integral())
        return a.integer();
    if (a.is_float())
        return a;
    if (a.is_undefined())
        use_undefined(a);
    throw Fault("bad operand type for unary +: '" + type_name(a) + "'");
}

std::optional<size_t> index_within(Integer index, size_t length) {
    if (index < 0)
        index += Integer(length);
    if (index < 0 || index >= Integer(length))
        return std::nullopt;
    return static_cast<size_t>(index);
}

namespace {

/// Positions that a slice of a sequence of `length` items visits (Python's slice.indices).
std::vector<size_t> slice_positions(const Value& start, const Value& stop, const Value& step, size_t length) {
    const Integer count = Integer(length);
    const Integer by = step.is_none() ? 1 : step.integer();
    if (by == 0)
        throw Fault("slice step cannot be zero");
    const Integer lowest = by > 0 ? 0 : -1;
    const Integer highest = by > 0 ? count : count - 1;
    const auto clamp = [&](const Value& value, Integer otherwise) {
        if (value.is_none())
            return otherwise;
        Integer at = value.integer();
        if (at < 0)
            at = at < -count ? lowest : std::max(at + count, lowest);
        return std::min(at, highest);
    };
    const Integer from = clamp(start, by > 0 ? 0 : count - 1);
    const Integer to = clamp(stop, by > 0 ? count : -1);
    std::vector<size_t> positions;
    for (Integer at = from; by > 0 ? at < to : at > to;) {
        positions.push_back(static_cast<size_t>(at));
        if (by > count || by < -count) // the next one lies outside; adding could overflow
            break;
        at += by;
    }
    return positions;
}

} // namespace

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap) {
    if (value.is_undefined())
        use_undefined(value);
    for (const Value* bound : {&start, &stop, &step})
        if (!bound->is_none() && !bound->is_integral())
            return Value::undefined("slice indices must be integers or None, not " + type_name(*bound));
    if (value.is_string()) {
        const Text& text = value.text();
        heap.charge_steps(1 + text.size() / 8);
        heap.check_memory(3 * sizeof(size_t) * (text.size() + 1));
        const std::vector<size_t> offsets = text.offsets();
        const auto positions = slice_positions(start, stop, step, offsets.size() - 1);
        Text result;
        for (const size_t at : positions)
            result.append(text, offsets[at], offsets[at + 1] - offsets[at]);
        return heap.string(std::move(result), value.is_markup());
    }
    const Sequence* sequence = value.sequence();
    if (!sequence || !sequence->has_index())
        return Value::undefined(type_name(value) + " object has no slices");
    std::vector<Value> items;
    for (const size_t at : slice_positions(start, stop, step, sequence->items().size()))
        items.push_back(sequence->items()[at]);
    return heap.sequence(sequence->kind(), std::move(items));
}

} // namespace orrery::jinja
