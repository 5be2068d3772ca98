// Attention over cached tokens. Compiled once by each code path.
//
// The cache is visited in parts of 256 tokens, counted from the sequence's start. Within a part: all
// scores, their maximum, their exponentials, then the weighted sum of values in the order of the tokens.
// Parts are folded together from left to right (combine). What a query gets therefore depends on its
// position alone.
#pragma once

#include "kernels/cpu/vector_kernels.inl.h"

namespace orrery::kernels::cpu {
namespace {

template <class Element>
ORRERY_INLINE F32 load_elements(const Element* p, int64_t lanes) {
    if constexpr (sizeof(Element) == 4)
        return load_some(reinterpret_cast<const float*>(p), lanes);
    else
        return lanes == 16 ? load_half(p) : load_half_first(p, lanes);
}

/// Scores of Q queries of a group (of 8, packed [key_length][8]) with the 16 tokens of each of T tiles.
template <class Element, int Q, int T>
ORRERY_INLINE void score_tiles(const AttentionPart& part, int tile, const float* q, float* scores) {
    const Element* keys[T];
    F32 sums[T][Q];
    UNROLLED
    for (int t = 0; t < T; ++t) {
        keys[t] = static_cast<const Element*>(part.keys[tile + t]);
        UNROLLED
        for (F32& sum : sums[t])
            sum = zero();
    }
    for (int d = 0; d < part.key_length; ++d)
        UNROLLED
    for (int t = 0; t < T; ++t) {
        const F32 k = load_elements(keys[t] + d * 16, 16);
        UNROLLED
        for (int i = 0; i < Q; ++i)
            sums[t][i] = fma(k, set1(q[d * 8 + i]), sums[t][i]);
    }
    UNROLLED
    for (int t = 0; t < T; ++t)
        UNROLLED
    for (int i = 0; i < Q; ++i)
        store(scores + i * 256 + (tile + t) * 16, sums[t][i]);
}

template <class Element, int Q>
ORRERY_INLINE void score_queries(const AttentionPart& part, int tiles, const float* q, float* scores) {
    // Few queries are few sums, each waiting for the one before: two tiles at once fill the gaps.
    constexpr int at_once = Q <= 4 ? 2 : 1;
    int tile = 0;
    for (; tile + at_once <= tiles; tile += at_once)
        score_tiles<Element, Q, at_once>(part, tile, q, scores);
    if (tile < tiles)
        score_tiles<Element, Q, 1>(part, tile, q, scores);
}

template <class Element>
ORRERY_INLINE void score_group(const AttentionPart& part, int first, int count, int tiles) {
    const float* q = part.q + static_cast<int64_t>(first) * part.key_length;
    float* scores = part.scores + first * 256;
    switch (count) {
    case 1:
        return score_queries<Element, 1>(part, tiles, q, scores);
    case 2:
        return score_queries<Element, 2>(part, tiles, q, scores);
    case 3:
        return score_queries<Element, 3>(part, tiles, q, scores);
    case 4:
        return score_queries<Element, 4>(part, tiles, q, scores);
    case 5:
        return score_queries<Element, 5>(part, tiles, q, scores);
    case 6:
        return score_queries<Element, 6>(part, tiles, q, scores);
    case 7:
        return score_queries<Element, 7>(part, tiles, q, scores);
    default:
        return score_queries<Element, 8>(part, tiles, q, scores);
    }
}

/// Scores → exponentials, in place; the first `tokens` count.
ORRERY_INLINE void soften(float* scores, int64_t tokens, float& peak, float& sum) {
    const F32 lowest = set1(-__builtin_inff());
    F32 largest = lowest;
    for_lanes(
        tokens, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            largest = max(largest, select_first(load(scores + i), lowest, lanes));
        });
    peak = reduce_max(largest);
    F32 total = zero();
    for_lanes(
        tokens, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32 e = exp_negative(sub(load(scores + i), set1(peak)));
            const F32 counted = select_first(e, zero(), lanes);
            store(scores + i, counted);
            total = add(total, counted);
        });
    sum = reduce_add(total);
}

/// out += Σ weight · value over tokens [first, last) for Q queries and V vectors of the value's elements.
template <class Element, int Q, int V>
ORRERY_INLINE void mix(const AttentionPart& part, int query, int64_t first, int64_t last, int64_t column,
                       int64_t lanes, F32 (&sums)[Q][V]) {
    for (int64_t t = first; t < last; ++t) {
        const auto* value =
            static_cast<const Element*>(part.values[t / 16]) + (t % 16) * part.value_length + column;
        F32 v[V];
        UNROLLED
        for (int i = 0; i < V; ++i)
            v[i] = load_elements(value + i * 16, lanes);
        UNROLLED
        for (int q = 0; q < Q; ++q) {
            const F32 weight = set1(part.scores[(query + q) * 256 + t]);
            UNROLLED
            for (int i = 0; i < V; ++i)
                sums[q][i] = fma(weight, v[i], sums[q][i]);
        }
    }
}

/// Q queries from `query` on: V vectors from `column` on. All but the last vector are whole.
template <class Element, int Q, int V>
ORRERY_INLINE void mix_columns(const AttentionPart& part, int query, int64_t column, int64_t lanes) {
    F32 sums[Q][V];
    UNROLLED
    for (auto& of_query : sums)
        UNROLLED
    for (F32& sum : of_query)
        sum = zero();
    int64_t common = part.tokens[query];
    for (int q = 1; q < Q; ++q)
        common = part.tokens[query + q] < common ? part.tokens[query + q] : common;
    mix<Element, Q, V>(part, query, 0, common, column, lanes, sums);
    UNROLLED
    for (int q = 0; q < Q; ++q) {
        // Tokens that only this query sees: a value that a query does not see must not touch it, not even
        // with weight 0, for it may be infinite.
        F32 own[1][V];
        UNROLLED
        for (int i = 0; i < V; ++i)
            own[0][i] = sums[q][i];
        mix<Element, 1, V>(part, query + q, common, part.tokens[query + q], column, lanes, own);
        UNROLLED
        for (int i = 0; i < V; ++i)
            store_some(part.out + static_cast<int64_t>(query + q) * part.value_length + column + i * 16,
                       own[0][i], lanes);
    }
}

template <class Element, int Q>
ORRERY_INLINE void mix_queries(const AttentionPart& part, int query) {
    int64_t column = 0;
    for (; column + 64 <= part.value_length; column += 64)
        mix_columns<Element, Q, 4>(part, query, column, 16);
    for (; column + 16 <= part.value_length; column += 16)
        mix_columns<Element, Q, 1>(part, query, column, 16);
    if (column < part.value_length)
        mix_columns<Element, Q, 1>(part, query, column, part.value_length - column);
}

template <class Element>
void attention(const AttentionPart& part) {
    for (int first = 0; first < part.queries; first += 8) {
        const int count = part.queries - first < 8 ? part.queries - first : 8;
        int most = 0;
        for (int i = first; i < first + count; ++i)
            most = part.tokens[i] > most ? part.tokens[i] : most;
        score_group<Element>(part, first, count, (most + 15) / 16);
        for (int i = first; i < first + count; ++i) {
            if (part.tokens[i] > 0) {
                soften(part.scores + i * 256, part.tokens[i], part.peak[i], part.sum[i]);
            } else {
                part.peak[i] = -__builtin_inff();
                part.sum[i] = 0.0f;
            }
        }
    }
    int query = 0;
    for (; query + mixed_queries <= part.queries; query += mixed_queries)
        mix_queries<Element, mixed_queries>(part, query);
    for (; query + 3 <= part.queries; query += 3)
        mix_queries<Element, 3>(part, query);
    for (; query < part.queries; ++query)
        mix_queries<Element, 1>(part, query);
}

void combine(float* peak, float* sum, float* out, float part_peak, float part_sum, const float* part_out,
             int value_length) {
    const float new_peak = part_peak > *peak ? part_peak : *peak;
    const F32 keep = exp_negative(set1(*peak - new_peak));
    const F32 gain = exp_negative(set1(part_peak - new_peak));
    float factors[2][16];
    store(factors[0], keep);
    store(factors[1], gain);
    *sum = *sum * factors[0][0] + part_sum * factors[1][0];
    *peak = new_peak;
    for_lanes(
        value_length, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            store_some(out + i,
                       fma(load_some(out + i, lanes), keep, mul(load_some(part_out + i, lanes), gain)),
                       lanes);
        });
}

} // namespace
} // namespace orrery::kernels::cpu
