// Some random sequences over one paged cache: rotation, storing and attention, with the options of every
// architecture in random combinations.
#pragma once

#include "tests/kernels/cpu/cpu_devices.h"
#include "tests/kernels/cpu/random_weights.h"
#include "tests/kernels/device_floats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace orrery::kernels::test {

struct AttentionCase {
    /// Some rows of one sequence that run in one batch, and padding rows before them.
    struct Piece {
        size_t sequence;
        int first, count;
        int padding = 0;
    };
    using Plan = std::vector<std::vector<Piece>>;
    struct Sequence {
        std::vector<float> qkv; ///< [positions, columns()]
        std::vector<int32_t> blocks;
    };
    struct NormOfHeads {
        Norm norm;
        std::vector<float> weight, bias; ///< empty: none
    };

    KvCacheSpec spec;
    int layer = 0;
    int positions = 0;
    std::vector<Sequence> sequences;
    RopeStoreOp store;     ///< without handles
    AttentionOp attention; ///< without handles
    NormOfHeads q_norm, k_norm, v_norm;
    std::vector<float> rope, query_scale, sinks, alibi;
    bool second_store = false; ///< another layer's queries read the same keys
    int out_gap = 0;

    int heads() const { return attention.heads; }
    int64_t q_columns() const { return int64_t{heads()} * spec.key_length; }
    int64_t k_columns() const { return int64_t{spec.kv_heads} * spec.key_length; }
    int64_t v_columns() const { return spec.value_in_key ? 0 : int64_t{spec.kv_heads} * spec.value_length; }
    int64_t columns() const { return q_columns() + k_columns() + v_columns(); }
    int64_t out_columns() const { return int64_t{heads()} * spec.value_length; }

    std::string shape() const {
        return "keys " + std::to_string(spec.key_length) + ", values " + std::to_string(spec.value_length) +
               (spec.value_in_key ? " in keys" : "") + ", blocks of " + std::to_string(spec.block_size) +
               ", heads " + std::to_string(heads()) + "/" + std::to_string(spec.kv_heads) + ", window " +
               std::to_string(attention.window) + (attention.chunked ? " chunked" : "") + ", cap " +
               std::to_string(attention.soft_cap) + ", sinks " + std::to_string(sinks.size()) + ", alibi " +
               std::to_string(alibi.size()) + ", " + std::to_string(positions) + " positions";
    }

    /// All sequences in one batch, whole.
    Plan whole() const {
        std::vector<Piece> pieces;
        for (size_t s = 0; s < sequences.size(); ++s)
            pieces.push_back({s, 0, positions});
        return {pieces};
    }
    /// Random pieces of all sequences, some at a time, with padding between them.
    Plan pieces(std::mt19937& random) const {
        Plan batches;
        std::vector<int> done(sequences.size(), 0);
        while (*std::min_element(done.begin(), done.end()) < positions) {
            std::vector<Piece> batch;
            for (size_t s = 0; s < done.size(); ++s) {
                if (done[s] == positions || number(0, 2, random) == 0)
                    continue;
                const int count = std::min(positions - done[s], number(1, coin(random) ? 4 : 200, random));
                batch.push_back({s, done[s], count, coin(random) ? 0 : number(1, 3, random)});
                done[s] += count;
            }
            if (!batch.empty())
                batches.push_back(batch);
        }
        return batches;
    }

    /// Results of all positions of all sequences, [positions, out_columns()] each; NAN where a padding row is
    /// not 0 or a gap was written to.
    std::vector<std::vector<float>> run(Backend& device, const Plan& plan) const;

    /// qkv is [rows, columns()]: all query heads, then all key heads, then all value heads.
    RopeStoreOp store_op(Buffer qkv, KvCache cache, int64_t rows) const {
        RopeStoreOp op = store;
        const View all = matrix(qkv, rows, columns());
        op.q = all.slice(0, q_columns());
        op.k = all.slice(q_columns(), k_columns());
        if (v_columns() > 0)
            op.v = all.slice(q_columns() + k_columns(), v_columns());
        op.cache = cache;
        op.layer = layer;
        return op;
    }
};

inline std::vector<std::vector<float>> AttentionCase::run(Backend& device, const Plan& plan) const {
    std::vector<Buffer> constants;
    const auto constant = [&](const std::vector<float>& values) {
        if (values.empty())
            return Buffer{};
        constants.push_back(orrery::test::to_device(device, values));
        return constants.back();
    };
    const auto norm_of = [&](const NormOfHeads& heads) {
        Norm norm = heads.norm;
        norm.weight = constant(heads.weight);
        norm.bias = constant(heads.bias);
        return norm;
    };
    const Norm norms[] = {norm_of(q_norm), norm_of(k_norm), norm_of(v_norm)};
    const Buffer rotations = constant(rope), scales = constant(query_scale);
    const Buffer sink_logits = constant(sinks), slopes = constant(alibi);
    const KvCache cache = device.create_kv_cache(spec);

    std::vector<std::vector<float>> results(sequences.size());
    for (auto& result : results)
        result.resize(static_cast<size_t>(positions * out_columns()));
    for (const auto& pieces : plan) {
        std::vector<int32_t> ids, row_positions, kv_slots, offsets, tables;
        std::vector<Span> spans;
        std::vector<float> qkv;
        for (const Piece& piece : pieces) {
            const Sequence& s = sequences[piece.sequence];
            for (int i = 0; i < piece.padding; ++i) {
                ids.push_back(0);
                row_positions.push_back(positions - 1);
                kv_slots.push_back(-1);
                qkv.insert(qkv.end(), static_cast<size_t>(columns()), 1.0f);
            }
            spans.push_back({static_cast<int32_t>(ids.size()), piece.count, piece.first});
            offsets.push_back(static_cast<int32_t>(tables.size()));
            for (int p = piece.first; p < piece.first + piece.count; ++p) {
                ids.push_back(0);
                row_positions.push_back(p);
                kv_slots.push_back(s.blocks[static_cast<size_t>(p / spec.block_size)] * spec.block_size +
                                   p % spec.block_size);
                const auto row = s.qkv.begin() + p * columns();
                qkv.insert(qkv.end(), row, row + columns());
            }
            tables.insert(tables.end(), s.blocks.begin(), s.blocks.end());
            // Blocks that no row sees have been given back.
            int seen = 0;
            if (attention.window > 0)
                seen = attention.chunked ? piece.first / attention.window * attention.window
                                         : std::max(0, piece.first - attention.window + 1);
            std::fill_n(tables.end() - static_cast<std::ptrdiff_t>(s.blocks.size()), seen / spec.block_size,
                        -1);
        }
        // The layout that is named is the second one; the first would be wrong.
        const std::vector<int32_t> nowhere(tables.size(), -1);
        const BlockLayout layouts[] = {{kv_slots, offsets, nowhere}, {kv_slots, offsets, tables}};
        device.begin({ids, row_positions, spans, layouts, {}, {}});
        const auto rows = static_cast<int64_t>(ids.size());
        const Buffer x = orrery::test::to_device(device, qkv);
        const int64_t out_stride = out_columns() + out_gap;
        const Buffer out = orrery::test::to_device(
            device, std::vector<float>(static_cast<size_t>(rows * out_stride), 777.0f));
        RopeStoreOp op = store_op(x, cache, rows);
        op.layout = 1;
        op.q_norm = norms[0];
        op.k_norm = norms[1];
        op.v_norm = norms[2];
        op.rope.table = rotations;
        op.query_scale = scales;
        device.rope_store(op);
        if (second_store) {
            op.k = op.v = {};
            op.k_norm = op.v_norm = {};
            device.rope_store(op);
        }
        AttentionOp attend = attention;
        attend.q = op.q;
        attend.out = matrix(out, rows, out_stride).slice(0, out_columns());
        attend.cache = cache;
        attend.layer = layer;
        attend.layout = 1;
        attend.sinks = sink_logits;
        attend.alibi = slopes;
        device.attention(attend);
        const auto all = orrery::test::from_device(device, out, static_cast<size_t>(rows * out_stride));
        std::ptrdiff_t row = 0;
        for (const Piece& piece : pieces) {
            float fault = 0.0f;
            for (int i = 0; i < piece.padding; ++i, ++row)
                for (int64_t c = 0; c < out_columns(); ++c)
                    if (all[static_cast<size_t>(row * out_stride + c)] != 0.0f)
                        fault = NAN;
            for (int p = piece.first; p < piece.first + piece.count; ++p, ++row) {
                for (int64_t c = out_columns(); c < out_stride; ++c)
                    if (all[static_cast<size_t>(row * out_stride + c)] != 777.0f)
                        fault = NAN;
                std::copy_n(all.begin() + row * out_stride, out_columns(),
                            results[piece.sequence].begin() + p * out_columns());
            }
            results[piece.sequence][0] += fault;
        }
        device.release(x);
        device.release(out);
    }
    for (const Buffer buffer : constants)
        device.release(buffer);
    device.release(cache);
    return results;
}

inline AttentionCase random_attention(KvType type, int positions, std::mt19937& random,
                                      bool with_options = true) {
    AttentionCase c;
    KvCacheSpec& spec = c.spec;
    spec.layers = 2;
    spec.kv_heads = one_of({1, 2, 3}, random);
    spec.key_length = one_of({16, 40, 64, 80, 96, 128}, random);
    spec.value_length = coin(random) ? spec.key_length : one_of({8, 16, 64, 72, 128}, random);
    spec.block_size = one_of({1, 5, 8, 16, 16, 32, 64}, random);
    spec.type = type;
    c.layer = number(0, 1, random);
    c.positions = positions;
    AttentionOp& op = c.attention;
    op.heads = spec.kv_heads * one_of({1, 2, 3, 5, 8}, random);
    if (number(0, 5, random) == 0) // more than one tile of queries per row
        op.heads = spec.kv_heads * one_of({20, 33}, random);
    op.scale = 1.0f / std::sqrt(static_cast<float>(spec.key_length));
    Rope& rope = c.store.rope;
    rope.style = coin(random) ? RopeStyle::interleaved : RopeStyle::halves;
    rope.dimensions = coin(random) ? spec.key_length : spec.key_length / 2 / 2 * 2;
    if (with_options) {
        if (number(0, 3, random) == 0) {
            spec.value_in_key = true;
            spec.value_length = one_of({spec.key_length, spec.key_length - 8, spec.key_length / 2}, random);
            if (coin(random)) { // latent attention
                spec.kv_heads = 1;
                op.heads = one_of({1, 16, 20, positions < 100 ? 128 : 16}, random);
            }
        }
        const auto heads_norm = [&](AttentionCase::NormOfHeads& norm, int length) {
            if (coin(random))
                return;
            norm.norm.kind = one_of({NormKind::rms, NormKind::layer}, random);
            norm.norm.weight_offset = coin(random) ? 0.0f : 1.0f;
            if (number(0, 3, random) != 0)
                norm.weight = random_floats(static_cast<size_t>(length), random);
            if (coin(random))
                norm.bias = random_floats(static_cast<size_t>(length), random);
        };
        heads_norm(c.q_norm, spec.key_length);
        heads_norm(c.k_norm, spec.key_length);
        if (!spec.value_in_key)
            heads_norm(c.v_norm, spec.value_length);
        c.store.norm_after_rope = coin(random);
        rope.first = number(0, 1, random) * (spec.key_length - rope.dimensions) / 8 * 8;
        if (number(0, 4, random) == 0)
            rope.dimensions = 0;
        if (number(0, 2, random) == 0) {
            c.query_scale = random_floats(static_cast<size_t>(positions), random);
            c.second_store = coin(random);
        }
        if (coin(random)) {
            op.window = one_of({1, 7, 16, 100, 256, 300}, random);
            op.chunked = number(0, 2, random) == 0;
        }
        if (number(0, 2, random) == 0)
            op.soft_cap = one_of({0.5f, 3.0f, 50.0f}, random);
        if (number(0, 2, random) == 0)
            c.sinks = random_floats(static_cast<size_t>(op.heads), random);
        if (number(0, 2, random) == 0)
            for (int h = 0; h < op.heads; ++h)
                c.alibi.push_back(std::exp2(-static_cast<float>(number(0, 8, random))));
        c.out_gap = coin(random) ? 0 : number(1, 20, random);
    }
    c.store.heads = op.heads;
    for (int p = 0; rope.dimensions > 0 && p < positions; ++p)
        for (int i = 0; i < rope.dimensions / 2; ++i) {
            const double angle = p * std::pow(10000.0, -2.0 * i / rope.dimensions);
            c.rope.push_back(static_cast<float>(std::cos(angle)));
            c.rope.push_back(static_cast<float>(std::sin(angle)));
        }
    const int blocks = (positions + spec.block_size - 1) / spec.block_size;
    const size_t count = 3;
    spec.blocks = blocks * static_cast<int>(count);
    std::vector<int32_t> order(static_cast<size_t>(spec.blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t s = 0; s < count; ++s) {
        AttentionCase::Sequence sequence;
        sequence.qkv = random_floats(static_cast<size_t>(positions * c.columns()), random);
        const auto first = order.begin() + static_cast<std::ptrdiff_t>(s) * blocks;
        sequence.blocks.assign(first, first + blocks);
        c.sequences.push_back(std::move(sequence));
    }
    return c;
}

} // namespace orrery::kernels::test
