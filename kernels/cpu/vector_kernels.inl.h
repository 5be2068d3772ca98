// Row operations: norm, gate, quantisation, rotation. Compiled once by each code path; ORRERY_SIMD names its
// simd_*.h.
#pragma once

#include "kernels/cpu/kernel_table.h"

#include ORRERY_SIMD

namespace orrery::kernels::cpu {
namespace {

/// e^x for x from −87 to 88 (clamped there). Argument reduction by multiples of ln 2 in two parts and a
/// polynomial of degree 6 on [−½ ln 2, ½ ln 2]: relative error below 2 · 2⁻²⁴.
ORRERY_INLINE F32x16 exp_clamped(F32x16 x) {
    x = min(max(x, set1(-87.0f)), set1(88.0f));
    const F32x16 n = round_nearest(mul(x, set1(1.44269504088896341f)));
    F32x16 r = fma(n, set1(-0.693145751953125f), x); // the first 15 bits of ln 2: the product is exact
    r = fma(n, set1(-1.42860682030941723e-6f), r);
    F32x16 p = set1(1.0f / 720.0f);
    p = fma(p, r, set1(1.0f / 120.0f));
    p = fma(p, r, set1(1.0f / 24.0f));
    p = fma(p, r, set1(1.0f / 6.0f));
    p = fma(p, r, set1(0.5f));
    p = fma(p, r, set1(1.0f));
    p = fma(p, r, set1(1.0f));
    return mul(p, power_of_2(n));
}

/// e^x for x ≤ 0; 0 below −87.
ORRERY_INLINE F32x16 exp_negative(F32x16 x) {
    return zero_below(exp_clamped(x), x, set1(-87.0f));
}

/// Calls body(offset, lanes) for pieces of 16 elements; the last may be shorter.
template <class Body>
ORRERY_INLINE void for_lanes(int64_t count, Body body) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        body(i, int64_t{16});
    if (i < count)
        body(i, count - i);
}

ORRERY_INLINE F32x16 load_some(const float* p, int64_t lanes) {
    return lanes == 16 ? load(p) : load_first(p, lanes);
}

ORRERY_INLINE void store_some(float* p, F32x16 a, int64_t lanes) {
    if (lanes == 16)
        store(p, a);
    else
        store_first(p, a, lanes);
}

void rms_norm(const float* x, const float* norm, float eps, float* out, int64_t columns) {
    F32x16 squares[4] = {zero(), zero(), zero(), zero()};
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 v = load_some(x + i, lanes);
            F32x16& sum = squares[i / 16 % 4];
            sum = fma(v, v, sum);
        });
    const float sum = reduce_add(add(add(squares[0], squares[1]), add(squares[2], squares[3])));
    const float mean = sum / static_cast<float>(columns);
    const F32x16 factor = set1(1.0f / __builtin_sqrtf(mean + eps));
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            store_some(out + i, mul(mul(load_some(x + i, lanes), factor), load_some(norm + i, lanes)), lanes);
        });
}

void silu_gate(const float* x, float* out, int64_t columns) {
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 gate = load_some(x + i, lanes);
            const F32x16 up = load_some(x + columns + i, lanes);
            const F32x16 silu = div(gate, add(set1(1.0f), exp_clamped(sub(zero(), gate))));
            store_some(out + i, mul(silu, up), lanes);
        });
}

void quantise(const float* x, ActivationBlock* out, int64_t columns) {
    for (int64_t k = 0; k < columns; k += 32, out += row_group) {
        const F32x16 a = load(x + k);
        const F32x16 b = load(x + k + 16);
        const float largest = reduce_max(max(abs(a), abs(b)));
        // Below 1e-30 the inverse would overflow; such a block adds nothing to any sum that counts.
        const bool empty = largest < 1e-30f;
        constexpr float max_quant = 127.0f * 128.0f;
        const F32x16 inverse = set1(empty ? 0.0f : max_quant / largest);
        const float scale = empty ? 0.0f : largest * (1.0f / max_quant);
        const int32_t sum_a = store_split(out->coarse, out->fine, to_int(mul(a, inverse)));
        const int32_t sum_b = store_split(out->coarse + 16, out->fine + 16, to_int(mul(b, inverse)));
        out->scale = scale;
        out->sum = scale * static_cast<float>(sum_a + sum_b);
        out->minus_8 = -8 * (sum_a + sum_b);
        out->minus_128 = -128 * (sum_a + sum_b);
        out->half_sum[0] = scale * static_cast<float>(sum_a);
        out->half_sum[1] = scale * static_cast<float>(sum_b);
        out->half_minus_8[0] = -8 * sum_a;
        out->half_minus_8[1] = -8 * sum_b;
        out->half_minus_128[0] = -128 * sum_a;
        out->half_minus_128[1] = -128 * sum_b;
    }
}

void rope_interleaved(float* x, int64_t heads, int64_t head_stride, const float* rotation, int dimensions) {
    for_lanes(
        dimensions, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 r = load_some(rotation + i, lanes);
            const F32x16 cosine = double_even(r);
            const F32x16 sine = double_odd(r);
            for (int64_t h = 0; h < heads; ++h) {
                float* p = x + h * head_stride + i;
                const F32x16 v = load_some(p, lanes);
                store_some(p, fma_addsub(v, cosine, mul(swap_pairs(v), sine)), lanes);
            }
        });
}

void rope_halves(float* x, int64_t heads, int64_t head_stride, const float* rotation, int dimensions) {
    const int64_t half = dimensions / 2;
    for_lanes(
        half, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 first = load_some(rotation + 2 * i, lanes >= 8 ? 16 : 2 * lanes);
            const F32x16 second = lanes > 8 ? load_some(rotation + 2 * i + 16, 2 * lanes - 16) : zero();
            F32x16 cosine, sine;
            split_pairs(first, second, cosine, sine);
            for (int64_t h = 0; h < heads; ++h) {
                float* p = x + h * head_stride + i;
                const F32x16 a = load_some(p, lanes);
                const F32x16 b = load_some(p + half, lanes);
                store_some(p, sub(mul(a, cosine), mul(b, sine)), lanes);
                store_some(p + half, fma(b, cosine, mul(a, sine)), lanes);
            }
        });
}

void to_half(const float* x, uint16_t* out, int64_t count) {
    for_lanes(
        count, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            if (lanes == 16)
                store_half(out + i, load(x + i));
            else
                store_half_first(out + i, load_first(x + i, lanes), lanes);
        });
}

void divide(const float* x, float sum, float* out, int64_t count) {
    const F32x16 inverse = set1(1.0f / sum);
    for_lanes(
        count, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            store_some(out + i, mul(load_some(x + i, lanes), inverse), lanes);
        });
}

} // namespace
} // namespace orrery::kernels::cpu
