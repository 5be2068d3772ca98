// Python's operators: truth, equality, order, membership, iteration, arithmetic.
//
// All of them throw Fault with Python's words where Python raises TypeError, ZeroDivisionError and the like.
#pragma once

#include "engine/text/jinja/value.h"

namespace orrery::jinja {

/// "str", "int", "dict" …: Python's name of the value's type.
std::string type_name(const Value& value);

bool truth(const Value& value);
bool equals(const Value& a, const Value& b);
/// Python's `is`.
bool same(const Value& a, const Value& b);
/// a < b for numbers, texts and lists; `op` is named in the message where they cannot be ordered.
bool less(const Value& a, const Value& b, const char* op = "<");
bool less_or_equal(const Value& a, const Value& b, const char* op = "<=");
/// item in container
bool contains(const Value& container, const Value& item, Heap& heap);

/// len(value), or nothing where the value has no length.
std::optional<size_t> length_of(const Value& value);
/// The items that a `for` visits: of a text its characters, of a dictionary its keys.
std::vector<Value> iterate(const Value& value, Heap& heap);
bool is_iterable(const Value& value);

Value add(const Value& a, const Value& b, Heap& heap);
Value subtract(const Value& a, const Value& b);
Value multiply(const Value& a, const Value& b, Heap& heap);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
/// `a % b` of numbers; of texts it is formatting (format.h).
Value modulo(const Value& a, const Value& b);
Value power(const Value& a, const Value& b);
Value negate(const Value& a);
Value posit(const Value& a);

/// value[start:stop:step] of texts, lists, tuples and ranges; undefined where Python raises TypeError.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap);

/// An index as Python counts it (negative from the end), or nothing where it lies outside.
std::optional<size_t> index_within(Integer index, size_t length);

/// |value| without the overflow that the least Integer would have.
inline unsigned __int128 magnitude(Integer value) {
    return value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
}

/// Throws what using this undefined value means.
[[noreturn]] void use_undefined(const Value& value);

} // namespace orrery::jinja
