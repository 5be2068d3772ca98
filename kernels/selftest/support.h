// What the cases of the selftest are made with: random numbers, handles that release themselves, and the two
// ways of comparing.
#pragma once

#include "kernels/backend.h"
#include "kernels/quant/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace orrery::kernels::selftest {

using Floats = std::vector<float>;

class Random {
public:
    explicit Random(uint32_t seed) : bits_(seed) {}

    std::mt19937& bits() { return bits_; }
    /// low … high, both included.
    int number(int low, int high) { return std::uniform_int_distribution(low, high)(bits_); }
    bool coin() { return number(0, 1) == 1; }
    template <typename T>
    T one_of(std::initializer_list<T> choices) {
        return choices.begin()[number(0, static_cast<int>(choices.size()) - 1)];
    }
    Floats normal(size_t count, float mean = 0.0f, float deviation = 1.0f) {
        std::normal_distribution<float> distribution(mean, deviation);
        Floats values(count);
        for (float& value : values)
            value = distribution(bits_);
        return values;
    }

private:
    std::mt19937 bits_;
};

/// A buffer that is released with its scope.
class OnDevice {
public:
    OnDevice(Backend& backend, size_t count)
        : backend_(backend), buffer_(backend.allocate(std::max<size_t>(count, 1) * sizeof(float))) {}
    OnDevice(Backend& backend, const Floats& values) : OnDevice(backend, values.size()) {
        backend.upload(buffer_, 0, std::as_bytes(std::span(values)));
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice() { backend_.release(buffer_); }

    operator Buffer() const { return buffer_; }
    Floats download(size_t count) const {
        Floats values(count);
        backend_.download(buffer_, 0, std::as_writable_bytes(std::span(values)));
        return values;
    }

private:
    Backend& backend_;
    Buffer buffer_;
};

/// A matrix somewhere in a larger buffer: elements before it and between its rows that no operation may
/// change. Released with its scope.
class Placed {
public:
    /// `values` is [rows, columns], or empty: then the matrix holds NaNs.
    Placed(Backend& backend, Random& random, int64_t rows, int64_t columns, const Floats& values = {},
           ElementType type = ElementType::f32)
        : backend_(backend) {
        view_.offset = random.one_of({0, 0, random.number(1, 40)});
        view_.rows = rows;
        view_.columns = columns;
        view_.row_stride = columns + random.one_of({0, 0, random.number(1, 40)});
        view_.type = type;
        before_.assign(static_cast<size_t>(view_.offset + rows * view_.row_stride + 3) * element_bytes(type),
                       std::byte{0xff});
        for (size_t i = 0; i < values.size(); ++i)
            store(values[i], &before_[place(i)]);
        view_.buffer = backend.allocate(before_.size());
        backend.upload(view_.buffer, 0, before_);
    }
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;
    ~Placed() { backend_.release(view_.buffer); }

    operator const View&() const { return view_; }
    /// What the matrix holds, [rows, columns]; all of them NaN where elements around it have changed.
    Floats download() const {
        std::vector<std::byte> now(before_.size());
        backend_.download(view_.buffer, 0, now);
        Floats values(static_cast<size_t>(view_.rows * view_.columns));
        std::vector<std::byte> around = before_;
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = load(&now[place(i)]);
            std::copy_n(&now[place(i)], element_bytes(view_.type), &around[place(i)]);
        }
        if (around != now)
            std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
        return values;
    }

private:
    /// The byte at which element i of the matrix begins.
    size_t place(size_t i) const {
        const auto index = static_cast<int64_t>(i);
        const int64_t row = index / view_.columns;
        return static_cast<size_t>(view_.offset + row * view_.row_stride + index % view_.columns) *
               element_bytes(view_.type);
    }
    void store(float value, std::byte* to) const {
        if (view_.type == ElementType::f32)
            std::memcpy(to, &value, sizeof value);
        else {
            const uint16_t half = view_.type == ElementType::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
            std::memcpy(to, &half, sizeof half);
        }
    }
    float load(const std::byte* from) const {
        if (view_.type == ElementType::f32) {
            float value = 0.0f;
            std::memcpy(&value, from, sizeof value);
            return value;
        }
        uint16_t half = 0;
        std::memcpy(&half, from, sizeof half);
        return view_.type == ElementType::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
    }

    Backend& backend_;
    View view_;
    std::vector<std::byte> before_;
};

/// A weight or a cache that is released with its scope.
template <typename Handle>
class Owned {
public:
    Owned(Backend& backend, Handle handle) : backend_(backend), handle_(handle) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() { backend_.release(handle_); }

    operator Handle() const { return handle_; }

private:
    Backend& backend_;
    Handle handle_;
};

/// A BlockLayout's arrays.
struct BlockTables {
    std::vector<int32_t> kv_slots, table_offsets, block_tables;

    void add(std::span<const int32_t> table) {
        table_offsets.push_back(static_cast<int32_t>(block_tables.size()));
        block_tables.insert(block_tables.end(), table.begin(), table.end());
    }
    BlockLayout layout() const { return {kv_slots, table_offsets, block_tables}; }
};

/// How many elements differ in their bits.
inline double different_bits(const Floats& a, const Floats& b) {
    double count = 0;
    for (size_t i = 0; i < a.size(); ++i)
        count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
    return count;
}

/// |got − expected|, infinite where it is not a number.
inline double difference(float got, float expected) {
    const double value = std::abs(static_cast<double>(got) - static_cast<double>(expected));
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

inline double largest_difference(const Floats& got, const Floats& expected) {
    double largest = 0.0;
    for (size_t i = 0; i < expected.size(); ++i)
        largest = std::max(largest, difference(got[i], expected[i]));
    return largest;
}

/// A width for rows of `type`: any number of blocks up to 700 elements, or up to three blocks.
inline int64_t random_columns(TensorType type, Random& random) {
    const auto block = static_cast<int>(info(type).block_elements);
    return int64_t{block} * random.number(1, std::max(3, 700 / block));
}

} // namespace orrery::kernels::selftest
