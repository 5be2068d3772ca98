#include "engine/model/rope_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace orrery {

namespace {

/// Positions of the shortest table: an ordinary answer needs no longer one.
constexpr int first_positions = 1024;
/// Elements that are computed, or moved from the old table to the new, at a time.
constexpr size_t piece_elements = size_t{1} << 16;

} // namespace

std::vector<float> rope_frequencies(const RopeConfig& rope) {
    std::vector<float> frequencies(static_cast<size_t>(rope.dimensions / 2));
    const auto base = static_cast<float>(rope.base);
    const auto linear_factor = static_cast<float>(rope.linear_factor);
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dimensions);
        const auto power =
            static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
        frequencies[i] = 1.0f / power / linear_factor;
        if (!rope.frequency_factors.empty())
            frequencies[i] /= rope.frequency_factors[i];
    }
    return frequencies;
}

void rope_rows(std::span<const float> frequencies, int first_position, std::span<float> rows) {
    const size_t count = rows.size() / std::max<size_t>(2 * frequencies.size(), 1);
    auto next = rows.begin();
    for (size_t row = 0; row < count; ++row)
        for (const float frequency : frequencies) {
            const double angle = static_cast<double>(static_cast<size_t>(first_position) + row) *
                                 static_cast<double>(frequency);
            *next++ = static_cast<float>(std::cos(angle));
            *next++ = static_cast<float>(std::sin(angle));
        }
}

RopeTable::RopeTable(const RopeConfig& rope, kernels::Backend& backend)
    : frequencies_(rope_frequencies(rope)), backend_(backend) {}

RopeTable::~RopeTable() {
    if (buffer_)
        backend_.release(buffer_);
}

void RopeTable::cover(int positions, int limit) {
    if (positions <= positions_)
        return;
    const auto rounded = std::bit_ceil(static_cast<unsigned>(std::max(positions, first_positions)));
    const auto longer = static_cast<int>(std::min(rounded, static_cast<unsigned>(limit)));
    const kernels::Buffer buffer =
        backend_.allocate(static_cast<size_t>(longer) * frequencies_.size() * 2 * sizeof(float));
    try {
        fill(buffer, longer);
    } catch (...) {
        backend_.release(buffer);
        throw;
    }
    if (const kernels::Buffer old = std::exchange(buffer_, buffer))
        backend_.release(old);
    positions_ = longer;
}

/// A piece at a time, so that the host never holds the whole table.
void RopeTable::fill(kernels::Buffer buffer, int positions) {
    const size_t row = 2 * frequencies_.size(), end = static_cast<size_t>(positions),
                 have = static_cast<size_t>(positions_);
    std::vector<float> piece(std::min(std::max(piece_elements / row, size_t{1}), end) * row);
    for (size_t first = 0; first < end;) {
        const size_t until = first < have ? have : end;
        const size_t count = std::min(piece.size() / row, until - first);
        const std::span<float> rows = std::span(piece).first(count * row);
        const size_t offset = first * row * sizeof(float);
        if (first < have)
            backend_.download(buffer_, offset, std::as_writable_bytes(rows));
        else
            rope_rows(frequencies_, static_cast<int>(first), rows);
        backend_.upload(buffer, offset, std::as_bytes(rows));
        first += count;
    }
}

} // namespace orrery
