// 16 lanes in one register: AVX-512. See simd_avx2.h for the same in two registers.
// Only for kernels_avx512.cpp; everything is internal to it.
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
    __m512 v;
};
/// 16 integers of 32 bits.
struct I32x16 {
    __m512i v;
};

// How many activation rows a tile of 16 outputs is multiplied with at once, and the tile of the dense
// product: 32 registers hold 8 sums, 8 lines of weights and the rest.
constexpr int max_packed_rows = 8;
constexpr int dense_rows = 6;
constexpr int summed_queries = 6; // of attention: 6 × 4 sums, 4 vectors of values
/// dot() multiplies codes as unsigned numbers: an offset of 128 has to be taken off.
constexpr bool dot_needs_offset_128 = true;

ORRERY_INLINE __mmask16 first_lanes(int64_t n) {
    return static_cast<__mmask16>((1u << n) - 1u);
}

ORRERY_INLINE F32x16 set1(float x) {
    return {_mm512_set1_ps(x)};
}
ORRERY_INLINE F32x16 zero() {
    return {_mm512_setzero_ps()};
}
ORRERY_INLINE F32x16 load(const float* p) {
    return {_mm512_loadu_ps(p)};
}
ORRERY_INLINE F32x16 load_first(const float* p, int64_t n) {
    return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
ORRERY_INLINE void store(float* p, F32x16 a) {
    _mm512_storeu_ps(p, a.v);
}
ORRERY_INLINE void store_first(float* p, F32x16 a, int64_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
ORRERY_INLINE F32x16 load_half(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
ORRERY_INLINE F32x16 load_half_first(const uint16_t* p, int64_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
}
ORRERY_INLINE F32x16 load_bfloat(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
ORRERY_INLINE F32x16 load_bfloat_first(const uint16_t* p, int64_t n) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
/// 16 int8 or uint8 as floats.
ORRERY_INLINE F32x16 load_i8(const void* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
ORRERY_INLINE F32x16 load_u8(const void* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
/// The low or high nibbles of 16 bytes as floats.
ORRERY_INLINE F32x16 load_low_nibbles(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_and_si128(bytes, _mm_set1_epi8(15))))};
}
ORRERY_INLINE F32x16 load_high_nibbles(const void* p) {
    const __m128i bytes = _mm_srli_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)), 4);
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_and_si128(bytes, _mm_set1_epi8(15))))};
}
/// The float16 at p, which may be unaligned, in all lanes.
ORRERY_INLINE F32x16 set1_half(const void* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, 2);
    return {_mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)))};
}
ORRERY_INLINE void store_half(uint16_t* p, F32x16 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
ORRERY_INLINE void store_half_first(uint16_t* p, F32x16 a, int64_t n) {
    _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

ORRERY_INLINE F32x16 add(F32x16 a, F32x16 b) {
    return {_mm512_add_ps(a.v, b.v)};
}
ORRERY_INLINE F32x16 sub(F32x16 a, F32x16 b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
ORRERY_INLINE F32x16 mul(F32x16 a, F32x16 b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
ORRERY_INLINE F32x16 div(F32x16 a, F32x16 b) {
    return {_mm512_div_ps(a.v, b.v)};
}
/// a · b + c, rounded once
ORRERY_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
/// a · b − c in even, a · b + c in odd lanes
ORRERY_INLINE F32x16 fma_addsub(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm512_fmaddsub_ps(a.v, b.v, c.v)};
}
ORRERY_INLINE F32x16 max(F32x16 a, F32x16 b) {
    return {_mm512_max_ps(a.v, b.v)};
}
ORRERY_INLINE F32x16 min(F32x16 a, F32x16 b) {
    return {_mm512_min_ps(a.v, b.v)};
}
ORRERY_INLINE F32x16 abs(F32x16 a) {
    return {_mm512_abs_ps(a.v)};
}
ORRERY_INLINE F32x16 round_nearest(F32x16 a) {
    return {_mm512_roundscale_ps(a.v, 0)};
}
/// 2^a for integral a from −126 to 127
ORRERY_INLINE F32x16 power_of_2(F32x16 a) {
    const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(e, 23))};
}
/// Lane i is a where i < n, else b.
ORRERY_INLINE F32x16 select_first(F32x16 a, F32x16 b, int64_t n) {
    return {_mm512_mask_mov_ps(b.v, first_lanes(n), a.v)};
}
ORRERY_INLINE F32x16 zero_below(F32x16 a, F32x16 x, F32x16 limit) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_GE_OQ), a.v)};
}
/// Lane i is a where x < limit, else b.
ORRERY_INLINE F32x16 select_below(F32x16 a, F32x16 b, F32x16 x, F32x16 limit) {
    return {_mm512_mask_mov_ps(b.v, _mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ), a.v)};
}
/// a with the sign of b.
ORRERY_INLINE F32x16 copy_sign(F32x16 a, F32x16 b) {
    const __m512 sign = _mm512_set1_ps(-0.0f);
    return {_mm512_or_ps(_mm512_andnot_ps(sign, a.v), _mm512_and_ps(sign, b.v))};
}
/// a where x is not 0, else 0.
ORRERY_INLINE F32x16 zero_where_zero(F32x16 a, F32x16 x) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_NEQ_UQ), a.v)};
}
ORRERY_INLINE F32x16 swap_pairs(F32x16 a) {
    return {_mm512_permute_ps(a.v, 0xb1)};
}
ORRERY_INLINE F32x16 double_even(F32x16 a) {
    return {_mm512_moveldup_ps(a.v)};
}
ORRERY_INLINE F32x16 double_odd(F32x16 a) {
    return {_mm512_movehdup_ps(a.v)};
}

/// a and b hold pairs: the first and the second halves of all pairs.
ORRERY_INLINE void split_pairs(F32x16 a, F32x16 b, F32x16& even, F32x16& odd) {
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    even = {_mm512_permutex2var_ps(a.v, first, b.v)};
    odd = {_mm512_permutex2var_ps(a.v, _mm512_add_epi32(first, _mm512_set1_epi32(1)), b.v)};
}

/// Lanes i and i + 8, then i + 4, i + 2, i + 1.
ORRERY_INLINE float reduce_add(F32x16 a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
ORRERY_INLINE float reduce_max(F32x16 a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

ORRERY_INLINE I32x16 to_int(F32x16 a) {
    return {_mm512_cvtps_epi32(a.v)};
}
ORRERY_INLINE F32x16 to_float(I32x16 a) {
    return {_mm512_cvtepi32_ps(a.v)};
}
/// Stores 16 numbers from −128 to 127 as bytes and returns their sum.
ORRERY_INLINE int32_t store_i8(int8_t* p, I32x16 a) {
    const __m128i bytes = _mm512_cvtepi32_epi8(a.v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    // PSADBW adds 8 unsigned bytes at once.
    const __m128i halves = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4) - 16 * 128;
}

/// Stores 16 numbers q from −16256 to 16256 as q = 128 · coarse + fine and returns their sum.
ORRERY_INLINE int32_t store_split(int8_t* coarse, int8_t* fine, I32x16 q) {
    const I32x16 high = {_mm512_srai_epi32(_mm512_add_epi32(q.v, _mm512_set1_epi32(64)), 7)};
    const I32x16 low = {_mm512_sub_epi32(q.v, _mm512_slli_epi32(high.v, 7))};
    return 128 * store_i8(coarse, high) + store_i8(fine, low);
}

ORRERY_INLINE int32_t four_bytes(const int8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    return word;
}

/// The codes of 16 rows × 32 columns. They are unpacked line by line when they are multiplied: the registers
/// are needed for the sums.
template <CodeClass code>
struct Codes {
    const uint8_t* p;
    __m512i table;

    ORRERY_INLINE Codes load(const uint8_t* at, const __m512i table) { return {at, table}; }

    /// Line j: 4 columns of each of the 16 rows.
    ORRERY_INLINE __m512i line(const Codes& c, int j) {
        if constexpr (is_nibble(code)) {
            __m512i both = _mm512_loadu_si512(c.p + j % 4 * 64);
            if (j >= 4)
                both = _mm512_srli_epi16(both, 4);
            const __m512i nibbles = _mm512_and_si512(both, _mm512_set1_epi8(15));
            return code == CodeClass::nibble_table ? _mm512_shuffle_epi8(c.table, nibbles) : nibbles;
        } else {
            return _mm512_loadu_si512(c.p + j * 64);
        }
    }
};

using Table = __m512i;
ORRERY_INLINE Table load_table(const uint8_t* table) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

/// start + Σ code · q over columns 4·first … 4·(first + count) of each of R rows of activations.
///
/// VPDPBUSD takes 5 cycles and two of them begin in each: 10 sums have to be under way. The coarse and the
/// fine halves are therefore summed side by side, 2·R chains.
template <CodeClass code, int R, int first, int count>
ORRERY_INLINE void dot(const Codes<code>& c, const ActivationBlock* x, const int32_t (&start)[R],
                       I32x16 (&out)[R]) {
    __m512i coarse[R];
    UNROLLED
    for (int r = 0; r < R; ++r) {
        coarse[r] = _mm512_setzero_si512();
        out[r].v = _mm512_set1_epi32(start[r]);
    }
    UNROLLED
    for (int j = first; j < first + count; ++j) {
        const __m512i line = Codes<code>::line(c, j);
        UNROLLED
        for (int r = 0; r < R; ++r) {
            coarse[r] =
                _mm512_dpbusd_epi32(coarse[r], line, _mm512_set1_epi32(four_bytes(x[r].coarse + j * 4)));
            out[r].v = _mm512_dpbusd_epi32(out[r].v, line, _mm512_set1_epi32(four_bytes(x[r].fine + j * 4)));
        }
    }
    UNROLLED
    for (int r = 0; r < R; ++r)
        out[r].v = _mm512_add_epi32(_mm512_slli_epi32(coarse[r], 7), out[r].v);
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
