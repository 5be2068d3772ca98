// Matrix products. Compiled once by each code path.
//
// One order of additions for every number of rows: an output is one float accumulator, into which the
// groups of a row enter from left to right, each as fma(scale · activation scale, exact integer sum).
// Tiles of rows only change which outputs are computed side by side.
#pragma once

#include "kernels/cpu/vector_kernels.inl.h"

namespace orrery::kernels::cpu {
namespace {

template <int value_>
struct Constant {
    static constexpr int value = value_;
};

ORRERY_INLINE void put(F32x16 value, const Output& output, int64_t row, int64_t column, int64_t lanes) {
    float* out = output.out + row * output.stride + column;
    if (output.bias != nullptr)
        value = add(value, load_some(output.bias + column, lanes));
    if (output.scale != 1.0f)
        value = mul(value, set1(output.scale));
    if (output.accumulate)
        value = add(load_some(out, lanes), value);
    store_some(out, value, lanes);
}

/// Scales (or, with `signed_codes` false, minima) of group g.
template <ScaleClass scale, bool signed_codes>
ORRERY_INLINE F32x16 group_scale(const uint8_t* scales, const uint8_t* supers, int64_t group, int64_t super) {
    if constexpr (scale == ScaleClass::half)
        return load_half(reinterpret_cast<const uint16_t*>(scales) + group * tile_rows);
    else if constexpr (scale == ScaleClass::bfloat)
        return load_bfloat(reinterpret_cast<const uint16_t*>(scales) + group * tile_rows);
    else {
        const F32x16 wide = load(reinterpret_cast<const float*>(supers) + super * tile_rows);
        const uint8_t* codes = scales + group * tile_rows;
        return mul(wide, signed_codes ? load_i8(codes) : load_u8(codes));
    }
}

/// What the integer sum of a group starts with: the correction for the offset of its codes.
template <CodeClass code>
ORRERY_INLINE int32_t start_of(int32_t minus_8, int32_t minus_128) {
    if constexpr (code == CodeClass::nibble_offset8)
        return minus_8;
    else if constexpr ((code == CodeClass::nibble_table || code == CodeClass::byte_offset128) &&
                       dot_needs_offset_128)
        return minus_128;
    else
        return 0;
}

/// One tile of 16 outputs for R rows of activations.
template <PackedFormat format, int R>
ORRERY_INLINE void packed_tile(const PackedMatrix& w, const uint8_t* tile, Table table,
                               const ActivationBlock* x, bool fetch_ahead, F32x16 (&sums)[R]) {
    constexpr FormatTraits traits = format_traits[static_cast<int>(format)];
    constexpr CodeClass code = traits.code;
    constexpr int64_t code_bytes = is_nibble(code) ? 256 : 512;
    // How far ahead weights are asked for: about 4 pages of latency at the rate of one core.
    constexpr int64_t ahead = 2048;
    const uint8_t* scales = tile + w.layout.scales;
    const uint8_t* minima = tile + w.layout.minima;
    const uint8_t* supers = tile + w.layout.supers;
    const uint8_t* minimum_supers = tile + w.layout.minimum_supers;
    UNROLLED
    for (F32x16& sum : sums)
        sum = zero();
    const int64_t blocks = w.columns / 32;
    for (int64_t b = 0; b < blocks; ++b, x += row_group, tile += code_bytes) {
        if (fetch_ahead)
            for (int64_t line = 0; line < code_bytes; line += 64)
                prefetch(tile + ahead + line);
        const Codes<code> codes = Codes<code>::load(tile, table);
        I32x16 dots[R];
        int32_t starts[R];
        if constexpr (traits.group == 32) {
            UNROLLED
            for (int r = 0; r < R; ++r)
                starts[r] = start_of<code>(x[r].minus_8, x[r].minus_128);
            dot<code, R, 0, 8>(codes, x, starts, dots);
            const F32x16 scale = group_scale<traits.scale, true>(scales, supers, b, b / 8);
            UNROLLED
            for (int r = 0; r < R; ++r)
                sums[r] = fma(mul(scale, set1(x[r].scale)), to_float(dots[r]), sums[r]);
            if constexpr (has_minimum(code)) {
                const F32x16 minimum = group_scale<traits.scale, false>(minima, minimum_supers, b, b / 8);
                UNROLLED
                for (int r = 0; r < R; ++r)
                    sums[r] = fma(minimum, set1(x[r].sum), sums[r]);
            }
        } else {
            const auto half = [&](auto first) __attribute__((always_inline)) {
                constexpr int h = decltype(first)::value;
                UNROLLED
                for (int r = 0; r < R; ++r)
                    starts[r] = start_of<code>(x[r].half_minus_8[h], x[r].half_minus_128[h]);
                dot<code, R, h * 4, 4>(codes, x, starts, dots);
                const F32x16 scale = group_scale<traits.scale, true>(scales, supers, b * 2 + h, b / 8);
                UNROLLED
                for (int r = 0; r < R; ++r)
                    sums[r] = fma(mul(scale, set1(x[r].scale)), to_float(dots[r]), sums[r]);
                if constexpr (has_minimum(code)) {
                    const F32x16 minimum =
                        group_scale<traits.scale, false>(minima, minimum_supers, b * 2 + h, b / 8);
                    UNROLLED
                    for (int r = 0; r < R; ++r)
                        sums[r] = fma(minimum, set1(x[r].half_sum[h]), sums[r]);
                }
            };
            half(Constant<0>{});
            half(Constant<1>{});
        }
    }
}

template <PackedFormat format, int R>
ORRERY_INLINE void packed_rows(const PackedMatrix& w, int64_t t, Table table, const ActivationBlock* x,
                               int64_t row, bool fetch_ahead, const Output& output) {
    F32x16 sums[R];
    packed_tile<format, R>(w, w.tile(t), table, x, fetch_ahead, sums);
    const int64_t column = t * tile_rows;
    const int64_t lanes = w.rows - column < tile_rows ? w.rows - column : tile_rows;
    UNROLLED
    for (int r = 0; r < R; ++r)
        put(sums[r], output, row + r, column, lanes);
}

template <PackedFormat format>
void packed(const PackedMatrix& w, int64_t first_tile, int64_t last_tile, const ActivationBlock* x,
            int64_t rows, const Output& output) {
    const Table table = load_table(w.table);
    const int64_t group_blocks = w.columns / 32 * row_group;
    for (int64_t t = first_tile; t < last_tile; ++t) {
        for (int64_t row = 0; row < rows;) {
            const ActivationBlock* at = x + row / row_group * group_blocks + row % row_group;
            const int64_t left = rows - row;
            const bool ahead = row == 0;
            if (max_packed_rows >= 8 && left >= 8) {
                packed_rows<format, max_packed_rows>(w, t, table, at, row, ahead, output);
                row += max_packed_rows;
            } else if (left >= 4) {
                packed_rows<format, 4>(w, t, table, at, row, ahead, output);
                row += 4;
            } else if (left >= 2) {
                packed_rows<format, 2>(w, t, table, at, row, ahead, output);
                row += 2;
            } else {
                packed_rows<format, 1>(w, t, table, at, row, ahead, output);
                row += 1;
            }
        }
    }
}

template <TensorType type>
ORRERY_INLINE F32x16 load_weights(const std::byte* row, int64_t k, int64_t lanes) {
    if constexpr (type == TensorType::F32) {
        return load_some(reinterpret_cast<const float*>(row) + k, lanes);
    } else {
        const auto* p = reinterpret_cast<const uint16_t*>(row) + k;
        if constexpr (type == TensorType::F16)
            return lanes == 16 ? load_half(p) : load_half_first(p, lanes);
        else
            return lanes == 16 ? load_bfloat(p) : load_bfloat_first(p, lanes);
    }
}

/// W weight rows times R activation rows, lanes along the columns; the lanes are added at the end.
template <TensorType type, int W, int R>
ORRERY_INLINE void dense_tile(const std::byte* w, int64_t row_bytes, const float* x, int64_t x_stride,
                              int64_t columns, float* out) {
    F32x16 sums[W][R];
    UNROLLED
    for (auto& of_weight : sums)
        UNROLLED
    for (F32x16& sum : of_weight)
        sum = zero();
    for_lanes(
        columns, [&](int64_t k, int64_t lanes) __attribute__((always_inline)) {
            F32x16 weights[W];
            UNROLLED
            for (int i = 0; i < W; ++i)
                weights[i] = load_weights<type>(w + i * row_bytes, k, lanes);
            UNROLLED
            for (int r = 0; r < R; ++r) {
                const F32x16 v = load_some(x + r * x_stride + k, lanes);
                UNROLLED
                for (int i = 0; i < W; ++i)
                    sums[i][r] = fma(weights[i], v, sums[i][r]);
            }
        });
    UNROLLED
    for (int r = 0; r < R; ++r)
        UNROLLED
    for (int i = 0; i < W; ++i)
        out[r * W + i] = reduce_add(sums[i][r]);
}

template <TensorType type, int W, int R>
ORRERY_INLINE void dense_block(const std::byte* w, int64_t row_bytes, const float* x, int64_t x_stride,
                               int64_t columns, int64_t row, int64_t column, const Output& output) {
    float results[R * W + 16];
    dense_tile<type, W, R>(w, row_bytes, x + row * x_stride, x_stride, columns, results);
    UNROLLED
    for (int r = 0; r < R; ++r)
        put(load_first(results + r * W, W), output, row + r, column, W);
}

template <TensorType type, int W>
ORRERY_INLINE void dense_rows_of(const std::byte* w, int64_t row_bytes, const float* x, int64_t x_stride,
                                 int64_t columns, int64_t rows, int64_t column, const Output& output) {
    int64_t row = 0;
    for (; row + dense_rows <= rows; row += dense_rows)
        dense_block<type, W, dense_rows>(w, row_bytes, x, x_stride, columns, row, column, output);
    if (dense_rows > 2)
        for (; row + 2 <= rows; row += 2)
            dense_block<type, W, 2>(w, row_bytes, x, x_stride, columns, row, column, output);
    for (; row < rows; ++row)
        dense_block<type, W, 1>(w, row_bytes, x, x_stride, columns, row, column, output);
}

template <TensorType type>
void dense_of(const std::byte* w, int64_t row_bytes, int64_t columns, int64_t first, int64_t last,
              const float* x, int64_t x_stride, int64_t rows, const Output& output) {
    int64_t column = first;
    for (; column + 4 <= last; column += 4)
        dense_rows_of<type, 4>(w + column * row_bytes, row_bytes, x, x_stride, columns, rows, column, output);
    for (; column < last; ++column)
        dense_rows_of<type, 1>(w + column * row_bytes, row_bytes, x, x_stride, columns, rows, column, output);
}

void dense(TensorType type, const std::byte* w, int64_t row_bytes, int64_t columns, int64_t first,
           int64_t last, const float* x, int64_t x_stride, int64_t rows, const Output& output) {
    if (type == TensorType::F32)
        dense_of<TensorType::F32>(w, row_bytes, columns, first, last, x, x_stride, rows, output);
    else if (type == TensorType::F16)
        dense_of<TensorType::F16>(w, row_bytes, columns, first, last, x, x_stride, rows, output);
    else
        dense_of<TensorType::BF16>(w, row_bytes, columns, first, last, x, x_stride, rows, output);
}

} // namespace
} // namespace orrery::kernels::cpu
