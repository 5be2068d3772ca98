// A View whose memory has been looked up and checked: rows of floats, whatever type they are kept in.
#pragma once

#include "kernels/quant/half.h"
#include "kernels/tensor.h"

#include <cstring>
#include <span>
#include <vector>

namespace orrery::kernels::reference {

struct Rows {
    std::byte* bytes = nullptr; ///< of the first row's first element
    size_t rows = 0;
    size_t columns = 0;
    size_t row_stride = 0; ///< in elements
    ElementType type = ElementType::f32;

    explicit operator bool() const { return bytes != nullptr; }

    /// The `columns` floats of one row.
    void read(size_t row, std::span<float> out) const {
        const std::byte* from = bytes + row * row_stride * element_bytes(type);
        if (type == ElementType::f32) {
            std::memcpy(out.data(), from, columns * sizeof(float));
            return;
        }
        for (size_t i = 0; i < columns; ++i) {
            uint16_t half = 0;
            std::memcpy(&half, from + i * sizeof half, sizeof half);
            out[i] = type == ElementType::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
        }
    }
    std::vector<float> read(size_t row) const {
        std::vector<float> values(columns);
        read(row, values);
        return values;
    }
    /// Rounds to nearest even where the type is narrower.
    void write(size_t row, std::span<const float> values) const {
        std::byte* to = bytes + row * row_stride * element_bytes(type);
        if (type == ElementType::f32) {
            std::memcpy(to, values.data(), columns * sizeof(float));
            return;
        }
        for (size_t i = 0; i < columns; ++i) {
            const uint16_t half = type == ElementType::bf16 ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
            std::memcpy(to + i * sizeof half, &half, sizeof half);
        }
    }
    /// Writes value(i) to every column i; with `accumulate`, adds it to what is there.
    template <typename Value>
    void put(size_t row, bool accumulate, Value value) const {
        std::vector<float> values(columns);
        if (accumulate)
            read(row, values);
        for (size_t i = 0; i < columns; ++i) {
            const double term = value(i);
            values[i] = static_cast<float>(accumulate ? static_cast<double>(values[i]) + term : term);
        }
        write(row, values);
    }
};

} // namespace orrery::kernels::reference
