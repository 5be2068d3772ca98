// Row operations: norm, activation, quantisation, rotation. Compiled once by each code path; ORRERY_SIMD
// names its simd_*.h.
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

/// tanh(x), relative error below 4 · 2⁻²⁴. Up to 0.625 a polynomial in x² (Chebyshev), beyond that
/// 1 − 2 / (e^2|x| + 1).
ORRERY_INLINE F32x16 hyperbolic_tangent(F32x16 x) {
    const F32x16 square = mul(x, x);
    F32x16 p = set1(-0.006104947999119759f);
    p = fma(p, square, set1(0.021003641188144684f));
    p = fma(p, square, set1(-0.05385249853134155f));
    p = fma(p, square, set1(0.13332782685756683f));
    p = fma(p, square, set1(-0.333333283662796f));
    const F32x16 small = fma(mul(p, square), x, x);
    const F32x16 size = abs(x);
    const F32x16 e = exp_clamped(add(size, size));
    const F32x16 large = sub(set1(1.0f), div(set1(2.0f), add(e, set1(1.0f))));
    return select_below(small, copy_sign(large, x), size, set1(0.625f));
}

/// Φ(x), the share of a normal distribution below x: relative error below 16 · 2⁻²⁴, 0 below −13.1.
/// Φ(−a) = e^(−a²/2) · w · P(w) with w = 1 / (1 + 0.35 a) and a polynomial P of degree 8 (Chebyshev, on
/// 0 ≤ a ≤ 13.3); the square is taken in two parts.
ORRERY_INLINE F32x16 normal_cdf(F32x16 x) {
    const F32x16 a = min(abs(x), set1(16.0f));
    const F32x16 square = mul(a, a);
    const F32x16 rest = fma(a, a, sub(zero(), square)); // exact: square + rest = a²
    const F32x16 w = div(set1(1.0f), fma(set1(0.35f), a, set1(1.0f)));
    F32x16 p = set1(-0.028877167031168938f);
    p = fma(p, w, set1(0.14275121688842773f));
    p = fma(p, w, set1(-0.25338446974754333f));
    p = fma(p, w, set1(0.15674328804016113f));
    p = fma(p, w, set1(-0.021600568667054176f));
    p = fma(p, w, set1(0.10493951290845871f));
    p = fma(p, w, set1(0.11995930969715118f));
    p = fma(p, w, set1(0.13984671235084534f));
    p = fma(p, w, set1(0.13962215185165405f));
    const F32x16 half = mul(set1(-0.5f), square);
    const F32x16 e = exp_negative(half);
    const F32x16 tail = mul(mul(fma(mul(e, set1(-0.5f)), rest, e), w), p);
    return select_below(tail, sub(set1(1.0f), tail), x, zero());
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

/// The mean of value(v) over a row: four sums side by side.
template <class Value>
ORRERY_INLINE float mean_of(const float* x, int64_t columns, Value value) {
    F32x16 sums[4] = {zero(), zero(), zero(), zero()};
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 v = value(load_some(x + i, lanes));
            F32x16& sum = sums[i / 16 % 4];
            sum = add(sum, lanes == 16 ? v : select_first(v, zero(), lanes));
        });
    return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3]))) / static_cast<float>(columns);
}

void norm(const NormArguments& n, const float* x, float* out, int64_t columns) {
    if (n.kind == NormKind::rms && n.weight != nullptr && n.bias == nullptr && n.weight_offset == 0.0f) {
        rms_norm(x, n.weight, n.eps, out, columns);
        return;
    }
    F32x16 mean = zero();
    F32x16 factor = set1(1.0f);
    if (n.kind == NormKind::layer)
        mean = set1(mean_of(
            x, columns, [](F32x16 v) __attribute__((always_inline)) { return v; }));
    if (n.kind != NormKind::none) {
        const float square = mean_of(
            x, columns, [mean](F32x16 v) __attribute__((always_inline)) {
                const F32x16 distance = sub(v, mean);
                return mul(distance, distance);
            });
        factor = set1(1.0f / __builtin_sqrtf(square + n.eps));
    }
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            F32x16 v = mul(sub(load_some(x + i, lanes), mean), factor);
            if (n.weight != nullptr)
                v = mul(v, add(load_some(n.weight + i, lanes), set1(n.weight_offset)));
            if (n.bias != nullptr)
                v = add(v, load_some(n.bias + i, lanes));
            store_some(out + i, v, lanes);
        });
}

template <ActivationKind kind>
ORRERY_INLINE F32x16 activated(F32x16 z, F32x16 alpha) {
    const F32x16 one = set1(1.0f);
    if constexpr (kind == ActivationKind::silu)
        return div(z, add(one, exp_clamped(sub(zero(), mul(alpha, z)))));
    else if constexpr (kind == ActivationKind::gelu)
        return mul(z, normal_cdf(z));
    else if constexpr (kind == ActivationKind::gelu_tanh) {
        // ½ (1 + tanh(u)) = 1 / (1 + e^−2u), with 2u = 2 √(2/π) (z + 0.044715 z³)
        const F32x16 square = mul(z, z);
        const F32x16 u = mul(mul(z, set1(-1.5957691216057308f)), fma(square, set1(0.044715f), one));
        return div(z, add(one, exp_clamped(u)));
    } else if constexpr (kind == ActivationKind::relu2) {
        const F32x16 positive = max(z, zero());
        return mul(positive, positive);
    } else if constexpr (kind == ActivationKind::sigmoid)
        return div(one, add(one, exp_clamped(sub(zero(), z))));
    else
        return z;
}

template <ActivationKind kind>
void activate_row(const Activation& a, const float* gate, const float* up, float* out, int64_t columns) {
    const F32x16 alpha = set1(a.alpha);
    const F32x16 limit = set1(a.limit);
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            F32x16 z = load_some(gate + i, lanes);
            if (up == nullptr) {
                store_some(out + i, activated<kind>(z, alpha), lanes);
                return;
            }
            F32x16 u = load_some(up + i, lanes);
            if (a.limit > 0.0f) {
                z = min(z, limit);
                u = max(min(u, limit), sub(zero(), limit));
            }
            if (a.up_offset != 0.0f)
                u = add(u, set1(a.up_offset));
            store_some(out + i, mul(activated<kind>(z, alpha), u), lanes);
        });
}

void silu_gate(const float* gates, const float* ups, float* out, int64_t columns) {
    for_lanes(
        columns, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 gate = load_some(gates + i, lanes);
            const F32x16 up = load_some(ups + i, lanes);
            const F32x16 silu = div(gate, add(set1(1.0f), exp_clamped(sub(zero(), gate))));
            store_some(out + i, mul(silu, up), lanes);
        });
}

void activate(const Activation& a, const float* gate, const float* up, float* out, int64_t columns) {
    switch (a.kind) {
    case ActivationKind::none:
        return activate_row<ActivationKind::none>(a, gate, up, out, columns);
    case ActivationKind::silu:
        if (up != nullptr && a.alpha == 1.0f && a.limit == 0.0f && a.up_offset == 0.0f)
            return silu_gate(gate, up, out, columns);
        return activate_row<ActivationKind::silu>(a, gate, up, out, columns);
    case ActivationKind::gelu:
        return activate_row<ActivationKind::gelu>(a, gate, up, out, columns);
    case ActivationKind::gelu_tanh:
        return activate_row<ActivationKind::gelu_tanh>(a, gate, up, out, columns);
    case ActivationKind::relu2:
        return activate_row<ActivationKind::relu2>(a, gate, up, out, columns);
    case ActivationKind::sigmoid:
        return activate_row<ActivationKind::sigmoid>(a, gate, up, out, columns);
    }
}

void soft_cap(const float* x, float scale, float cap, float* out, int64_t count) {
    const F32x16 inner = set1(cap != 0.0f ? scale / cap : scale);
    for_lanes(
        count, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            F32x16 v = mul(load_some(x + i, lanes), inner);
            if (cap != 0.0f)
                v = mul(hyperbolic_tangent(v), set1(cap));
            store_some(out + i, v, lanes);
        });
}

void add_scaled(const float* x, float scale, bool accumulate, float* out, int64_t count) {
    const F32x16 factor = set1(scale);
    for_lanes(
        count, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            F32x16 v = mul(load_some(x + i, lanes), factor);
            if (accumulate)
                v = add(load_some(out + i, lanes), v);
            store_some(out + i, v, lanes);
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
