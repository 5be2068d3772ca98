// Words for the Errors of the reference back end.
#pragma once

#include "kernels/error.h"
#include "kernels/tensor.h"

#include <cstdint>
#include <initializer_list>
#include <string>

namespace orrery::kernels::reference {

inline std::string number(int64_t value) {
    return std::to_string(value);
}

inline void require(bool condition, const std::string& sentence) {
    if (!condition)
        throw Error(sentence);
}

/// a · b, or the largest number where that does not fit.
size_t saturating_product(size_t a, size_t b);

/// Whether an element of `a` is one of `b`.
bool overlap(const View& a, const View& b);

/// Throws where `out` has elements in common with one of `inputs` (none: a view that is not given).
void require_apart(const View& out, std::initializer_list<View> inputs, const char* operation);

inline bool same(const View& a, const View& b) {
    return a.buffer.id == b.buffer.id && a.offset == b.offset && a.row_stride == b.row_stride &&
           a.type == b.type;
}

} // namespace orrery::kernels::reference
