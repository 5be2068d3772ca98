// 16 lanes in two registers: AVX2, FMA and F16C. Same names and same results as simd_avx512.h.
// Only for kernels_avx2.cpp; everything is internal to it.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_weight.h"

#include <immintrin.h>

#include <cstdint>

#define ORRERY_INLINE static inline __attribute__((always_inline))
// Loops whose count is a template argument: sums live in registers only once they are unrolled.
#define UNROLLED _Pragma("GCC unroll 16")

namespace orrery::kernels::cpu {
namespace {

/// 16 floats.
struct F32x16 {
    __m256 lo, hi;
};
/// 16 integers of 32 bits.
struct I32x16 {
    __m256i lo, hi;
};

// 16 registers: 4 rows × 16 integer sums take half of them.
constexpr int max_packed_rows = 4;
constexpr int dense_rows = 2;
constexpr int summed_queries = 1;
/// dot() takes codes with an offset of 128 as the signed numbers that they stand for.
constexpr bool dot_needs_offset_128 = false;

/// All ones in the lanes first … first + 8 that are below n.
ORRERY_INLINE __m256i lanes_below(int64_t n, int first) {
    const __m256i lane =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

ORRERY_INLINE F32x16 set1(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
ORRERY_INLINE F32x16 zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
ORRERY_INLINE F32x16 load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
ORRERY_INLINE F32x16 load_first(const float* p, int64_t n) {
    return {_mm256_maskload_ps(p, lanes_below(n, 0)), _mm256_maskload_ps(p + 8, lanes_below(n, 8))};
}
ORRERY_INLINE void store(float* p, F32x16 a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
ORRERY_INLINE void store_first(float* p, F32x16 a, int64_t n) {
    _mm256_maskstore_ps(p, lanes_below(n, 0), a.lo);
    _mm256_maskstore_ps(p + 8, lanes_below(n, 8), a.hi);
}
ORRERY_INLINE F32x16 load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
ORRERY_INLINE F32x16 widen_bfloat(__m128i lo, __m128i hi) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(lo), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(hi), 16))};
}
ORRERY_INLINE F32x16 load_bfloat(const uint16_t* p) {
    return widen_bfloat(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
}
ORRERY_INLINE F32x16 load_half_first(const uint16_t* p, int64_t n) {
    uint16_t full[16] = {};
    for (int64_t i = 0; i < n; ++i)
        full[i] = p[i];
    return load_half(full);
}
ORRERY_INLINE F32x16 load_bfloat_first(const uint16_t* p, int64_t n) {
    uint16_t full[16] = {};
    for (int64_t i = 0; i < n; ++i)
        full[i] = p[i];
    return load_bfloat(full);
}
ORRERY_INLINE F32x16 load_i8(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
ORRERY_INLINE F32x16 load_u8(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
ORRERY_INLINE F32x16 widen_bytes(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
ORRERY_INLINE F32x16 load_low_nibbles(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return widen_bytes(_mm_and_si128(bytes, _mm_set1_epi8(15)));
}
ORRERY_INLINE F32x16 load_high_nibbles(const void* p) {
    const __m128i bytes = _mm_srli_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)), 4);
    return widen_bytes(_mm_and_si128(bytes, _mm_set1_epi8(15)));
}
ORRERY_INLINE F32x16 set1_half(const void* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, 2);
    const __m256 all = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
    return {all, all};
}
ORRERY_INLINE void store_half(uint16_t* p, F32x16 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
ORRERY_INLINE void store_half_first(uint16_t* p, F32x16 a, int64_t n) {
    uint16_t full[16];
    store_half(full, a);
    for (int64_t i = 0; i < n; ++i)
        p[i] = full[i];
}

ORRERY_INLINE F32x16 add(F32x16 a, F32x16 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 sub(F32x16 a, F32x16 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 mul(F32x16 a, F32x16 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 div(F32x16 a, F32x16 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
ORRERY_INLINE F32x16 fma_addsub(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm256_fmaddsub_ps(a.lo, b.lo, c.lo), _mm256_fmaddsub_ps(a.hi, b.hi, c.hi)};
}
ORRERY_INLINE F32x16 max(F32x16 a, F32x16 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 min(F32x16 a, F32x16 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
ORRERY_INLINE F32x16 abs(F32x16 a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
ORRERY_INLINE F32x16 round_nearest(F32x16 a) {
    return {_mm256_round_ps(a.lo, 8), _mm256_round_ps(a.hi, 8)};
}
ORRERY_INLINE F32x16 power_of_2(F32x16 a) {
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i lo = _mm256_add_epi32(_mm256_cvtps_epi32(a.lo), bias);
    const __m256i hi = _mm256_add_epi32(_mm256_cvtps_epi32(a.hi), bias);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 23)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 23))};
}
ORRERY_INLINE F32x16 select_first(F32x16 a, F32x16 b, int64_t n) {
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(lanes_below(n, 0))),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(lanes_below(n, 8)))};
}
ORRERY_INLINE F32x16 zero_below(F32x16 a, F32x16 x, F32x16 limit) {
    return {_mm256_and_ps(a.lo, _mm256_cmp_ps(x.lo, limit.lo, _CMP_GE_OQ)),
            _mm256_and_ps(a.hi, _mm256_cmp_ps(x.hi, limit.hi, _CMP_GE_OQ))};
}
ORRERY_INLINE F32x16 select_below(F32x16 a, F32x16 b, F32x16 x, F32x16 limit) {
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, limit.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, limit.hi, _CMP_LT_OQ))};
}
ORRERY_INLINE F32x16 copy_sign(F32x16 a, F32x16 b) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, a.lo), _mm256_and_ps(sign, b.lo)),
            _mm256_or_ps(_mm256_andnot_ps(sign, a.hi), _mm256_and_ps(sign, b.hi))};
}
ORRERY_INLINE F32x16 zero_where_zero(F32x16 a, F32x16 x) {
    const __m256 none = _mm256_setzero_ps();
    return {_mm256_and_ps(_mm256_cmp_ps(x.lo, none, _CMP_NEQ_UQ), a.lo),
            _mm256_and_ps(_mm256_cmp_ps(x.hi, none, _CMP_NEQ_UQ), a.hi)};
}
ORRERY_INLINE F32x16 swap_pairs(F32x16 a) {
    return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
}
ORRERY_INLINE F32x16 double_even(F32x16 a) {
    return {_mm256_moveldup_ps(a.lo), _mm256_moveldup_ps(a.hi)};
}
ORRERY_INLINE F32x16 double_odd(F32x16 a) {
    return {_mm256_movehdup_ps(a.lo), _mm256_movehdup_ps(a.hi)};
}

/// a and b hold pairs: the first and the second halves of all pairs.
ORRERY_INLINE void split_pairs(F32x16 a, F32x16 b, F32x16& even, F32x16& odd) {
    const auto halves = [](__m256 x) {
        return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
    };
    even = {halves(_mm256_shuffle_ps(a.lo, a.hi, 0x88)), halves(_mm256_shuffle_ps(b.lo, b.hi, 0x88))};
    odd = {halves(_mm256_shuffle_ps(a.lo, a.hi, 0xdd)), halves(_mm256_shuffle_ps(b.lo, b.hi, 0xdd))};
}

ORRERY_INLINE float reduce_add(F32x16 a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
ORRERY_INLINE float reduce_max(F32x16 a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

ORRERY_INLINE I32x16 to_int(F32x16 a) {
    return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
ORRERY_INLINE F32x16 to_float(I32x16 a) {
    return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
/// Stores 16 numbers from −128 to 127 as bytes and returns their sum.
ORRERY_INLINE int32_t store_i8(int8_t* p, I32x16 a) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    // PSADBW adds 8 unsigned bytes at once.
    const __m128i halves = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4) - 16 * 128;
}

/// Stores 16 numbers q from −16256 to 16256 as q = 128 · coarse + fine and returns their sum.
ORRERY_INLINE int32_t store_split(int8_t* coarse, int8_t* fine, I32x16 q) {
    const __m256i round = _mm256_set1_epi32(64);
    const I32x16 high = {_mm256_srai_epi32(_mm256_add_epi32(q.lo, round), 7),
                         _mm256_srai_epi32(_mm256_add_epi32(q.hi, round), 7)};
    const I32x16 low = {_mm256_sub_epi32(q.lo, _mm256_slli_epi32(high.lo, 7)),
                        _mm256_sub_epi32(q.hi, _mm256_slli_epi32(high.hi, 7))};
    return 128 * store_i8(coarse, high) + store_i8(fine, low);
}

ORRERY_INLINE int32_t four_bytes(const int8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    return word;
}

/// The codes stay in memory: there are too few registers to unpack 32 columns at once.
template <CodeClass code>
struct Codes {
    const uint8_t* p;
    __m256i table;

    ORRERY_INLINE Codes load(const uint8_t* at, const __m256i table) { return {at, table}; }

    /// Line j for 8 of the 16 rows.
    ORRERY_INLINE __m256i line(const Codes& c, int j, int half) {
        if constexpr (is_nibble(code)) {
            __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c.p + j % 4 * 64 + half * 32));
            if (j >= 4)
                both = _mm256_srli_epi16(both, 4);
            const __m256i nibbles = _mm256_and_si256(both, _mm256_set1_epi8(15));
            return code == CodeClass::nibble_table ? _mm256_shuffle_epi8(c.table, nibbles) : nibbles;
        } else {
            return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c.p + j * 64 + half * 32));
        }
    }
};

using Table = __m256i;
ORRERY_INLINE Table load_table(const uint8_t* table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

/// out += Σ code · quant for the coarse or the fine bytes of R rows of activations.
template <CodeClass code, int R, int first, int count>
ORRERY_INLINE void add_dot(const Codes<code>& c, const ActivationBlock* x,
                           const int8_t (ActivationBlock::*quants)[32], I32x16 (&out)[R]) {
    UNROLLED
    for (int j = first; j < first + count; ++j) {
        const __m256i lo = Codes<code>::line(c, j, 0);
        const __m256i hi = Codes<code>::line(c, j, 1);
        UNROLLED
        for (int r = 0; r < R; ++r) {
            const __m256i q = _mm256_set1_epi32(four_bytes(x[r].*quants + j * 4));
            if constexpr (code == CodeClass::nibble_offset8 || code == CodeClass::nibble_minimum ||
                          code == CodeClass::byte_minimum) {
                // Codes below 32: a pair is at most 2 · 31 · 127, far from where 16 bits saturate.
                const __m256i one = _mm256_set1_epi16(1);
                out[r].lo = _mm256_add_epi32(out[r].lo, _mm256_madd_epi16(_mm256_maddubs_epi16(lo, q), one));
                out[r].hi = _mm256_add_epi32(out[r].hi, _mm256_madd_epi16(_mm256_maddubs_epi16(hi, q), one));
            } else {
                // Codes up to 255 would saturate. As signed numbers, code − 128, their magnitudes are at most
                // 128 and a pair is at most 2 · 128 · 127 = 32512.
                const __m256i one = _mm256_set1_epi16(1);
                const __m256i flip = _mm256_set1_epi8(-128);
                const __m256i slo = _mm256_xor_si256(lo, flip);
                const __m256i shi = _mm256_xor_si256(hi, flip);
                const __m256i plo = _mm256_maddubs_epi16(_mm256_abs_epi8(slo), _mm256_sign_epi8(q, slo));
                const __m256i phi = _mm256_maddubs_epi16(_mm256_abs_epi8(shi), _mm256_sign_epi8(q, shi));
                out[r].lo = _mm256_add_epi32(out[r].lo, _mm256_madd_epi16(plo, one));
                out[r].hi = _mm256_add_epi32(out[r].hi, _mm256_madd_epi16(phi, one));
            }
        }
    }
}

template <CodeClass code, int R, int first, int count>
ORRERY_INLINE void dot(const Codes<code>& c, const ActivationBlock* x, const int32_t (&start)[R],
                       I32x16 (&out)[R]) {
    UNROLLED
    for (int r = 0; r < R; ++r)
        out[r].lo = out[r].hi = _mm256_setzero_si256();
    add_dot<code, R, first, count>(c, x, &ActivationBlock::coarse, out);
    UNROLLED
    for (int r = 0; r < R; ++r) {
        out[r].lo = _mm256_add_epi32(_mm256_slli_epi32(out[r].lo, 7), _mm256_set1_epi32(start[r]));
        out[r].hi = _mm256_add_epi32(_mm256_slli_epi32(out[r].hi, 7), _mm256_set1_epi32(start[r]));
    }
    add_dot<code, R, first, count>(c, x, &ActivationBlock::fine, out);
}

ORRERY_INLINE void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
/// Only as far as the L2 cache.
ORRERY_INLINE void prefetch_later(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

} // namespace
} // namespace orrery::kernels::cpu
