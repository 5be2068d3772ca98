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

/// How a kind of cache is read. score() adds the dot products of Q queries (a group of AttentionPart::q) with
/// the 16 tokens of each of T tiles of keys; values() reads V vectors of one token's value from `column` on,
/// all of them whole but the last, of which `lanes` elements count; across() reads element d of the 16 keys
/// of a tile.
template <class Element>
struct FloatCache {
    static int64_t row_bytes(int length) { return length * static_cast<int64_t>(sizeof(Element)); }

    ORRERY_INLINE F32x16 load_elements(const Element* p, int64_t lanes) {
        if constexpr (sizeof(Element) == 4)
            return load_some(p, lanes);
        else
            return lanes == 16 ? load_half(p) : load_half_first(p, lanes);
    }

    template <int Q, int T>
    ORRERY_INLINE void score(const void* const* tiles, const float* q, int key_length, F32x16 (&sums)[T][Q]) {
        for (int d = 0; d < key_length; ++d)
            UNROLLED
        for (int t = 0; t < T; ++t) {
            const F32x16 k = load_elements(static_cast<const Element*>(tiles[t]) + d * 16, 16);
            UNROLLED
            for (int i = 0; i < Q; ++i)
                sums[t][i] = fma(k, set1(q[d * 8 + i]), sums[t][i]);
        }
    }

    ORRERY_INLINE F32x16 across(const void* tile, int d) {
        return load_elements(static_cast<const Element*>(tile) + d * 16, 16);
    }

    template <int V>
    ORRERY_INLINE void values(const void* row, int64_t column, int64_t lanes, F32x16 (&v)[V]) {
        UNROLLED
        for (int i = 0; i < V; ++i)
            v[i] = load_elements(static_cast<const Element*>(row) + column + i * 16, lanes);
    }
};

/// Groups of 32 elements. A tile of keys holds, for each group, the quants [32][16] and then 16 scales; a
/// value is a row of Q8_0 blocks.
struct Int8Cache {
    static constexpr int64_t block_bytes = 34;
    static int64_t row_bytes(int length) { return (length + 31) / 32 * block_bytes; }

    template <int Q, int T>
    ORRERY_INLINE void score(const void* const* tiles, const float* q, int key_length, F32x16 (&sums)[T][Q]) {
        for (int first = 0; first < key_length; first += 32, q += 32 * 8) {
            const int count = key_length - first < 32 ? key_length - first : 32;
            const int64_t at = first / 32 * 16 * block_bytes;
            UNROLLED
            for (int t = 0; t < T; ++t) {
                const auto* keys = static_cast<const uint8_t*>(tiles[t]) + at;
                F32x16 dots[Q];
                UNROLLED
                for (F32x16& dot : dots)
                    dot = zero();
                for (int d = 0; d < count; ++d) {
                    const F32x16 k = load_i8(keys + d * 16);
                    UNROLLED
                    for (int i = 0; i < Q; ++i)
                        dots[i] = fma(k, set1(q[d * 8 + i]), dots[i]);
                }
                const F32x16 scale = load_half(reinterpret_cast<const uint16_t*>(keys + 512));
                UNROLLED
                for (int i = 0; i < Q; ++i)
                    sums[t][i] = fma(dots[i], scale, sums[t][i]);
            }
        }
    }

    ORRERY_INLINE F32x16 across(const void* tile, int d) {
        const auto* keys = static_cast<const uint8_t*>(tile) + d / 32 * 16 * block_bytes;
        return mul(load_i8(keys + d % 32 * 16), load_half(reinterpret_cast<const uint16_t*>(keys + 512)));
    }

    template <int V>
    ORRERY_INLINE void values(const void* row, int64_t column, int64_t, F32x16 (&v)[V]) {
        UNROLLED
        for (int i = 0; i < V; ++i) {
            const int64_t at = column + i * 16;
            const auto* block = static_cast<const uint8_t*>(row) + at / 32 * block_bytes;
            v[i] = mul(load_i8(block + 2 + at % 32), set1_half(block));
        }
    }
};

/// The same with BlockKv4: [16][16] bytes with the elements d and d + 16, [2][16] scales, [2][16] minima; a
/// value is a row of these blocks.
struct Int4Cache {
    static constexpr int64_t block_bytes = 24;
    static int64_t row_bytes(int length) { return (length + 31) / 32 * block_bytes; }

    /// The `count` elements of a tile's group that are low or high nibbles; `totals` are the queries' sums
    /// over them.
    template <int Q, bool high>
    ORRERY_INLINE void score_half(const uint8_t* keys, const float* q, const float* totals, int count,
                                  F32x16 (&sums)[Q]) {
        F32x16 dots[Q];
        UNROLLED
        for (F32x16& dot : dots)
            dot = zero();
        for (int d = 0; d < count; ++d) {
            const F32x16 quants = high ? load_high_nibbles(keys + d * 16) : load_low_nibbles(keys + d * 16);
            UNROLLED
            for (int i = 0; i < Q; ++i)
                dots[i] = fma(quants, set1(q[d * 8 + i]), dots[i]);
        }
        const F32x16 scale = load_half(reinterpret_cast<const uint16_t*>(keys + 256 + high * 32));
        const F32x16 minimum = load_half(reinterpret_cast<const uint16_t*>(keys + 320 + high * 32));
        UNROLLED
        for (int i = 0; i < Q; ++i)
            sums[i] = fma(set1(totals[i]), minimum, fma(dots[i], scale, sums[i]));
    }

    template <int Q, int T>
    ORRERY_INLINE void score(const void* const* tiles, const float* q, int key_length, F32x16 (&sums)[T][Q]) {
        const float* totals = q + key_length * 8;
        for (int first = 0; first < key_length; first += 32, q += 32 * 8, totals += 2 * 8) {
            const int left = key_length - first < 32 ? key_length - first : 32;
            const int64_t at = first / 32 * 16 * block_bytes;
            UNROLLED
            for (int t = 0; t < T; ++t) {
                const auto* keys = static_cast<const uint8_t*>(tiles[t]) + at;
                score_half<Q, false>(keys, q, totals, left < 16 ? left : 16, sums[t]);
                if (left > 16)
                    score_half<Q, true>(keys, q + 16 * 8, totals + 8, left - 16, sums[t]);
            }
        }
    }

    ORRERY_INLINE F32x16 across(const void* tile, int d) {
        const auto* keys = static_cast<const uint8_t*>(tile) + d / 32 * 16 * block_bytes;
        const bool high = d % 32 >= 16;
        const uint8_t* bytes = keys + d % 16 * 16;
        const F32x16 quants = high ? load_high_nibbles(bytes) : load_low_nibbles(bytes);
        return fma(quants, load_half(reinterpret_cast<const uint16_t*>(keys + 256 + high * 32)),
                   load_half(reinterpret_cast<const uint16_t*>(keys + 320 + high * 32)));
    }

    template <int V>
    ORRERY_INLINE void values(const void* row, int64_t column, int64_t, F32x16 (&v)[V]) {
        UNROLLED
        for (int i = 0; i < V; ++i) {
            const int64_t at = column + i * 16;
            const auto* block = static_cast<const uint8_t*>(row) + at / 32 * block_bytes;
            const bool high = at % 32 != 0;
            const F32x16 quants = high ? load_high_nibbles(block + 8) : load_low_nibbles(block + 8);
            v[i] = fma(quants, set1_half(block + high * 2), set1_half(block + 4 + high * 2));
        }
    }
};

/// Scores of Q queries of a group with T tiles from `tile` on.
template <class Cache, int Q, int T>
ORRERY_INLINE void score_tiles(const AttentionPart& part, int tile, const float* q, float* scores) {
    F32x16 sums[T][Q];
    UNROLLED
    for (auto& of_tile : sums)
        UNROLLED
    for (F32x16& sum : of_tile)
        sum = zero();
    Cache::template score<Q, T>(part.keys + tile, q, part.key_length, sums);
    UNROLLED
    for (int t = 0; t < T; ++t)
        UNROLLED
    for (int i = 0; i < Q; ++i)
        store(scores + i * 256 + (tile + t) * 16, sums[t][i]);
}

/// Asks for the keys and values of tiles [first, last), before the first queries come to them. Each tile lies
/// in a page of its own, and the hardware does not look beyond a page: 2 to 3 % of a batch's rate.
template <class Cache>
ORRERY_INLINE void fetch_tiles(const AttentionPart& part, int first, int last) {
    for (int t = first; t < last; ++t) {
        for (int64_t at = 0; at < 16 * Cache::row_bytes(part.key_length); at += 64)
            prefetch(static_cast<const uint8_t*>(part.keys[t]) + at);
        for (int64_t at = 0; !part.value_in_key && at < 16 * Cache::row_bytes(part.value_length); at += 64)
            prefetch_later(static_cast<const uint8_t*>(part.values[t]) + at);
    }
}

template <class Cache, int Q>
ORRERY_INLINE void score_queries(const AttentionPart& part, int first_tile, int tiles, bool is_first,
                                 const float* q, float* scores) {
    // Few queries are few sums, each waiting for the one before: two tiles at once fill the gaps.
    constexpr int at_once = Q <= 4 ? 2 : 1;
    const auto fetch = [&](int first) __attribute__((always_inline)) {
        if (is_first)
            fetch_tiles<Cache>(part, first, first + at_once < tiles ? first + at_once : tiles);
    };
    fetch(first_tile);
    int tile = first_tile;
    for (; tile + at_once <= tiles; tile += at_once) {
        fetch(tile + at_once);
        score_tiles<Cache, Q, at_once>(part, tile, q, scores);
    }
    if (tile < tiles)
        score_tiles<Cache, Q, 1>(part, tile, q, scores);
}

template <class Cache>
ORRERY_INLINE void score_group(const AttentionPart& part, int first, int count, int first_tile, int tiles) {
    const float* q = part.q + first * query_rows(part.key_length);
    float* scores = part.scores + first * 256;
    switch (count) {
    case 1:
        return score_queries<Cache, 1>(part, first_tile, tiles, first == 0, q, scores);
    case 2:
        return score_queries<Cache, 2>(part, first_tile, tiles, first == 0, q, scores);
    case 3:
        return score_queries<Cache, 3>(part, first_tile, tiles, first == 0, q, scores);
    case 4:
        return score_queries<Cache, 4>(part, first_tile, tiles, first == 0, q, scores);
    case 5:
        return score_queries<Cache, 5>(part, first_tile, tiles, first == 0, q, scores);
    case 6:
        return score_queries<Cache, 6>(part, first_tile, tiles, first == 0, q, scores);
    case 7:
        return score_queries<Cache, 7>(part, first_tile, tiles, first == 0, q, scores);
    default:
        return score_queries<Cache, 8>(part, first_tile, tiles, first == 0, q, scores);
    }
}

/// The numerators of softmax, in place, over the first `tokens` scores, and their sum.
ORRERY_INLINE void softmax(float* scores, int64_t tokens, float& peak, float& sum) {
    const F32x16 lowest = set1(-__builtin_inff());
    F32x16 largest = lowest;
    for_lanes(
        tokens, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            largest = max(largest, select_first(load(scores + i), lowest, lanes));
        });
    peak = reduce_max(largest);
    F32x16 total = zero();
    for_lanes(
        tokens, [&](int64_t i, int64_t lanes) __attribute__((always_inline)) {
            const F32x16 e = exp_negative(sub(load(scores + i), set1(peak)));
            const F32x16 counted = select_first(e, zero(), lanes);
            store(scores + i, counted);
            total = add(total, counted);
        });
    sum = reduce_add(total);
}

ORRERY_INLINE int first_token(const AttentionPart& part, int query) {
    return part.first_tokens != nullptr ? part.first_tokens[query] : 0;
}

/// Soft cap and ALiBi of the scores [first, tokens) of a query.
ORRERY_INLINE void adjust_scores(const AttentionPart& part, int query, int first) {
    float* scores = part.scores + query * 256;
    alignas(64) static constexpr float lane_numbers[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                           8, 9, 10, 11, 12, 13, 14, 15};
    const F32x16 lane = load(lane_numbers);
    for (int i = first / 16 * 16; i < part.tokens[query]; i += 16) {
        F32x16 s = load(scores + i);
        if (part.soft_cap != 0.0f)
            s = mul(hyperbolic_tangent(mul(s, set1(1.0f / part.soft_cap))), set1(part.soft_cap));
        if (part.alibi != nullptr) {
            const F32x16 distance = add(lane, set1(static_cast<float>(i - part.positions[query])));
            s = fma(set1(part.alibi[query]), distance, s);
        }
        store(scores + i, s);
    }
}

/// The same for the scores [first, tokens), of which those of the first vector below `first` are lost.
ORRERY_INLINE void softmax_from(float* scores, int first, int64_t tokens, float& peak, float& sum) {
    const int start = first / 16 * 16;
    for (int i = start; i < first; ++i)
        scores[i] = -__builtin_inff();
    softmax(scores + start, tokens - start, peak, sum);
}

/// out += Σ weight · value over tokens [first, last) for Q queries and V vectors of the value's elements.
template <class Cache, int Q, int V>
ORRERY_INLINE void weighted_sum(const AttentionPart& part, int query, int64_t first, int64_t last,
                                int64_t column, int64_t lanes, F32x16 (&sums)[Q][V]) {
    const int64_t row_bytes = Cache::row_bytes(part.value_length);
    for (int64_t t = first; t < last; ++t) {
        const auto* value = static_cast<const uint8_t*>(part.values[t / 16]) + (t % 16) * row_bytes;
        F32x16 v[V];
        Cache::template values<V>(value, column, lanes, v);
        UNROLLED
        for (int q = 0; q < Q; ++q) {
            const F32x16 weight = set1(part.scores[(query + q) * 256 + t]);
            UNROLLED
            for (int i = 0; i < V; ++i)
                sums[q][i] = fma(weight, v[i], sums[q][i]);
        }
    }
}

/// Q queries from `query` on: V vectors from `column` on. All but the last vector are whole. A query's tokens
/// enter its sums in their order, those that all Q queries see side by side. A value that a query does not
/// see must not touch it, not even with weight 0, for it may be infinite.
template <class Cache, int Q, int V, bool windowed>
ORRERY_INLINE void sum_columns(const AttentionPart& part, int query, int64_t column, int64_t lanes) {
    F32x16 sums[Q][V];
    UNROLLED
    for (auto& of_query : sums)
        UNROLLED
    for (F32x16& sum : of_query)
        sum = zero();
    int64_t begin = 0;
    int64_t end = part.tokens[query];
    for (int q = 1; q < Q; ++q)
        end = part.tokens[query + q] < end ? part.tokens[query + q] : end;
    if constexpr (windowed) {
        for (int q = 0; q < Q; ++q)
            begin = part.first_tokens[query + q] > begin ? part.first_tokens[query + q] : begin;
        end = end > begin ? end : begin;
        UNROLLED
        for (int q = 0; q < Q; ++q) {
            F32x16 own[1][V];
            UNROLLED
            for (int i = 0; i < V; ++i)
                own[0][i] = zero();
            const int64_t tokens = part.tokens[query + q];
            weighted_sum<Cache, 1, V>(part, query + q, part.first_tokens[query + q],
                                      begin < tokens ? begin : tokens, column, lanes, own);
            UNROLLED
            for (int i = 0; i < V; ++i)
                sums[q][i] = own[0][i];
        }
    }
    weighted_sum<Cache, Q, V>(part, query, begin, end, column, lanes, sums);
    UNROLLED
    for (int q = 0; q < Q; ++q) {
        F32x16 own[1][V];
        UNROLLED
        for (int i = 0; i < V; ++i)
            own[0][i] = sums[q][i];
        weighted_sum<Cache, 1, V>(part, query + q, end, part.tokens[query + q], column, lanes, own);
        UNROLLED
        for (int i = 0; i < V; ++i)
            store_some(part.out + static_cast<int64_t>(query + q) * part.value_length + column + i * 16,
                       own[0][i], lanes);
    }
}

template <class Cache, int Q, bool windowed>
ORRERY_INLINE void sum_queries(const AttentionPart& part, int query) {
    int64_t column = 0;
    for (; column + 64 <= part.value_length; column += 64)
        sum_columns<Cache, Q, 4, windowed>(part, query, column, 16);
    for (; column + 16 <= part.value_length; column += 16)
        sum_columns<Cache, Q, 1, windowed>(part, query, column, 16);
    if (column < part.value_length)
        sum_columns<Cache, Q, 1, windowed>(part, query, column, part.value_length - column);
}

template <class Cache, bool windowed>
ORRERY_INLINE void sum_values(const AttentionPart& part) {
    int query = 0;
    for (; query + summed_queries <= part.queries; query += summed_queries)
        sum_queries<Cache, summed_queries, windowed>(part, query);
    for (; query + 3 <= part.queries; query += 3)
        sum_queries<Cache, 3, windowed>(part, query);
    for (; query < part.queries; ++query)
        sum_queries<Cache, 1, windowed>(part, query);
}

/// Values that lie in keys, across: Q queries from `query` on, tiles [first_tile, tiles). Weights of tokens
/// that a query does not see are 0, and such a token's value does not touch it.
template <class Cache, int Q>
ORRERY_INLINE void sum_keys(const AttentionPart& part, int query, int first_tile, int tiles) {
    for (int d = 0; d < part.value_length; ++d) {
        F32x16 sums[Q];
        UNROLLED
        for (F32x16& sum : sums)
            sum = zero();
        for (int t = first_tile; t < tiles; ++t) {
            const F32x16 key = Cache::across(part.keys[t], d);
            UNROLLED
            for (int q = 0; q < Q; ++q) {
                const F32x16 weight = load(part.scores + (query + q) * 256 + t * 16);
                sums[q] = fma(weight, zero_where_zero(key, weight), sums[q]);
            }
        }
        UNROLLED
        for (int q = 0; q < Q; ++q)
            part.out[static_cast<int64_t>(query + q) * part.value_length + d] = reduce_add(sums[q]);
    }
}

template <class Cache>
ORRERY_INLINE void sum_values_in_keys(const AttentionPart& part, int first_tile, int tiles) {
    for (int query = 0; query < part.queries; ++query) {
        float* weights = part.scores + query * 256;
        const int begin = part.tokens[query] > 0 ? first_token(part, query) / 16 * 16 : tiles * 16;
        for (int i = first_tile * 16; i < begin; ++i)
            weights[i] = 0.0f;
        for (int i = (part.tokens[query] + 15) / 16 * 16; i < tiles * 16; ++i)
            weights[i] = 0.0f;
    }
    int query = 0;
    for (; query + 4 <= part.queries; query += 4)
        sum_keys<Cache, 4>(part, query, first_tile, tiles);
    for (; query < part.queries; ++query)
        sum_keys<Cache, 1>(part, query, first_tile, tiles);
}

template <class Cache>
void attention(const AttentionPart& part) {
    int part_first = 16;
    int part_tiles = 0;
    for (int first = 0; first < part.queries; first += 8) {
        const int count = part.queries - first < 8 ? part.queries - first : 8;
        int max_tokens = 0;
        int min_first = 256;
        for (int i = first; i < first + count; ++i) {
            const int begin = first_token(part, i);
            if (part.tokens[i] <= begin)
                continue;
            max_tokens = part.tokens[i] > max_tokens ? part.tokens[i] : max_tokens;
            min_first = begin < min_first ? begin : min_first;
        }
        const int first_tile = min_first / 16;
        const int tiles = (max_tokens + 15) / 16;
        part_first = first_tile < part_first ? first_tile : part_first;
        part_tiles = tiles > part_tiles ? tiles : part_tiles;
        score_group<Cache>(part, first, count, first_tile, tiles);
        for (int i = first; i < first + count; ++i) {
            const int begin = first_token(part, i);
            if (part.tokens[i] > begin) {
                if (part.soft_cap != 0.0f || part.alibi != nullptr)
                    adjust_scores(part, i, begin);
                softmax_from(part.scores + i * 256, begin, part.tokens[i], part.peak[i], part.sum[i]);
            } else {
                part.peak[i] = -__builtin_inff();
                part.sum[i] = 0.0f;
            }
        }
    }
    if (part.value_in_key)
        sum_values_in_keys<Cache>(part, part_first, part_tiles);
    else if (part.first_tokens != nullptr)
        sum_values<Cache, true>(part);
    else
        sum_values<Cache, false>(part);
}

void combine(float* peak, float* sum, float* out, float part_peak, float part_sum, const float* part_out,
             int value_length) {
    const float new_peak = part_peak > *peak ? part_peak : *peak;
    const F32x16 keep = exp_negative(set1(*peak - new_peak));
    const F32x16 gain = exp_negative(set1(part_peak - new_peak));
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
