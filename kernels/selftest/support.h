// What the cases of the selftest are made with: random numbers, handles that release themselves, and the two
// ways of comparing.
#pragma once

#include "kernels/backend.h"

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
