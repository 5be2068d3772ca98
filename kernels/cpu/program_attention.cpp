// Attention: which thread works on which queries and which part of the cache.
#include "kernels/cpu/program.h"
#include "kernels/error.h"
#include "kernels/quant/kv_row.h"

#include <algorithm>
#include <utility>

namespace orrery::kernels::cpu {

namespace {

/// Queries that share one pass over the cache: the heads of a key/value group, of as many rows as fit.
constexpr int queries_per_tile = 16;

constexpr int64_t round_up_8(int64_t value) {
    return (value + 7) / 8 * 8;
}

} // namespace

/// Which queries are worked on together: made once a batch for all layers of one shape.
struct Program::AttentionPlan {
    /// Some rows of a span with some query heads of one key/value head.
    struct Tile {
        int64_t first_row; ///< in the batch
        int64_t first_position;
        int rows;
        int kv_head;
        int first_head; ///< query heads
        int heads;
        int32_t table_offset;
        int parts;       ///< of 256 tokens
        size_t partials; ///< queries and parts of the tiles before

        int queries() const { return rows * heads; }
        /// Row of the batch and head of a query.
        int64_t row(int query) const { return first_row + query / heads; }
        int head(int query) const { return first_head + query % heads; }
        int64_t tokens(int row, int part) const {
            return std::clamp<int64_t>(first_position + row + 1 - int64_t{part} * part_tokens, 0,
                                       part_tokens);
        }
    };
    struct Shape {
        int layout = 0;
        int heads = 0;
        int kv_heads = 0;
        int block_size = 0;
        bool operator==(const Shape&) const = default;
    };
    Shape shape;
    std::vector<Tile> tiles;
    /// Where the parts of a tile are worked on apart: {tile, part}.
    std::vector<std::pair<int, int>> parts;
    size_t partials = 0; ///< queries times parts of all tiles
    int max_queries = 0;
};

struct Program::AttentionJob {
    AttentionArguments arguments;
    const AttentionPlan* plan = nullptr;
    const int32_t* block_tables = nullptr;

    int64_t value_length() const { return arguments.store->spec().value_length; }
    /// Floats of one part's results: peak and sum of each query, then the weighted values.
    size_t partial_floats(const AttentionPlan::Tile& tile) const {
        return static_cast<size_t>(tile.queries() * (value_length() + 2));
    }
    float* partials(const AttentionPlan::Tile& tile, float* all) const {
        return all + tile.partials * static_cast<size_t>(value_length() + 2);
    }
    float* output(const AttentionPlan::Tile& tile, int query) const {
        return arguments.out.row(tile.row(query)) + tile.head(query) * value_length();
    }
};

Program::Batch::Batch() = default;
Program::Batch::~Batch() = default;

const Program::AttentionPlan& Program::attention_plan(const AttentionArguments& a) {
    const KvCacheSpec& spec = a.store->spec();
    const AttentionPlan::Shape shape{a.layout, a.heads, spec.kv_heads, spec.block_size};
    for (size_t i = 0; i < batch_->plan_count; ++i)
        if (batch_->plans[i]->shape == shape)
            return *batch_->plans[i];

    const Layout& blocks = layout(a.layout);
    if (blocks.table_offsets.size() != batch_->spans.size())
        throw Error("The batch has " + std::to_string(batch_->spans.size()) + " spans and " +
                    std::to_string(blocks.table_offsets.size()) + " block tables.");
    if (batch_->plan_count == batch_->plans.size())
        batch_->plans.push_back(std::make_unique<AttentionPlan>());
    AttentionPlan& plan = *batch_->plans[batch_->plan_count];
    plan.shape = shape;
    plan.tiles.clear();
    plan.parts.clear();
    plan.partials = 0;
    plan.max_queries = 0;

    const int group = a.heads / spec.kv_heads; // query heads of a key/value head
    const int slices = (group + queries_per_tile - 1) / queries_per_tile;
    const int slice = (group + slices - 1) / slices;
    const int height = std::max(1, queries_per_tile / slice);
    bool long_context = false;
    for (size_t s = 0; s < batch_->spans.size(); ++s) {
        const Span& span = batch_->spans[s];
        const int64_t last_block = (int64_t{span.first_position} + span.rows - 1) / spec.block_size;
        if (blocks.table_offsets[s] + last_block >= static_cast<int64_t>(blocks.block_tables.size()))
            throw Error("A block table ends before position " +
                        std::to_string(span.first_position + span.rows) + ".");
        for (int row = 0; row < span.rows; row += height)
            for (int head = 0; head < a.heads; head += std::min(slice, group - head % group)) {
                AttentionPlan::Tile tile{};
                tile.first_row = span.first_row + row;
                tile.first_position = span.first_position + row;
                tile.rows = std::min(height, span.rows - row);
                tile.kv_head = head / group;
                tile.first_head = head;
                tile.heads = std::min(slice, group - head % group);
                tile.table_offset = blocks.table_offsets[s];
                tile.parts = static_cast<int>((tile.first_position + tile.rows - 1) / part_tokens + 1);
                tile.partials = plan.partials;
                plan.partials += static_cast<size_t>(tile.queries()) * static_cast<size_t>(tile.parts);
                plan.max_queries = std::max(plan.max_queries, tile.queries());
                long_context = long_context || tile.parts > 1;
                plan.tiles.push_back(tile);
            }
    }
    const auto tiles = static_cast<int>(plan.tiles.size());
    if (long_context && tiles < pool_.threads() * 8)
        for (int t = 0; t < tiles; ++t)
            for (int p = 0; p < plan.tiles[static_cast<size_t>(t)].parts; ++p)
                plan.parts.emplace_back(t, p);
    ++batch_->plan_count;
    return plan;
}

void Program::attention(const AttentionArguments& a) {
    const KvCacheSpec& spec = a.store->spec();
    AttentionJob job;
    job.arguments = a;
    job.plan = &attention_plan(a);
    job.block_tables = layout(a.layout).block_tables.data();

    const int64_t queries = round_up_8(job.plan->max_queries);
    grow_scratch((static_cast<size_t>(queries * (query_rows(spec.key_length) + part_tokens + 1 +
                                                 2 * (spec.value_length + 2)) +
                                      spec.key_length) +
                  a.store->scratch_floats()) *
                 sizeof(float));

    const auto tiles = static_cast<int64_t>(job.plan->tiles.size());
    if (!job.plan->parts.empty()) {
        partials_.grow(job.plan->partials * static_cast<size_t>(spec.value_length + 2) * sizeof(float));
        record(&KernelProfile::attention_ns, static_cast<int64_t>(job.plan->parts.size()), 1,
               [this, job](int64_t first, int64_t last, int thread) {
                   for (int64_t i = first; i < last; ++i)
                       run_attention(job, i, thread);
               });
        record(&KernelProfile::attention_ns, tiles, 1, [this, job](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i)
                finish_attention(job, i);
        });
    } else {
        // The tiles with the longest contexts come last in a span; begin with them.
        record(&KernelProfile::attention_ns, tiles, 1,
               [this, job, tiles](int64_t first, int64_t last, int thread) {
                   for (int64_t i = first; i < last; ++i)
                       run_attention(job, tiles - 1 - i, thread);
               });
    }
}

void Program::run_attention(const AttentionJob& job, int64_t item, int thread) {
    const AttentionPlan& plan = *job.plan;
    const bool split = !plan.parts.empty();
    const AttentionPlan::Tile& tile =
        plan.tiles[static_cast<size_t>(split ? plan.parts[static_cast<size_t>(item)].first : item)];
    const AttentionArguments& a = job.arguments;
    const KvCacheSpec& spec = a.store->spec();
    const int key_length = spec.key_length;
    const int64_t value_length = spec.value_length;
    const int queries = tile.queries();
    const int64_t padded = round_up_8(queries);

    float* at = scratch<float>(thread);
    const auto take = [&at](int64_t count) { return std::exchange(at, at + count); };
    float* q = take(padded * query_rows(key_length));
    float* scores = take(padded * part_tokens);
    auto* tokens = reinterpret_cast<int32_t*>(take(padded));
    float* results = take(padded * (value_length + 2));
    float* state = take(padded * (value_length + 2));
    float* row_scratch = take(key_length);
    float* store_scratch = at;

    for (int i = 0; i < queries; ++i) {
        const float* source = a.q.row(tile.row(i)) + int64_t{tile.head(i)} * key_length;
        if (rotates_keys(spec.type)) {
            std::copy_n(source, key_length, row_scratch);
            rotate(row_scratch, static_cast<size_t>(key_length));
            source = row_scratch;
        }
        float* target = q + int64_t{i / 8} * 8 * query_rows(key_length) + i % 8;
        for (int d = 0; d < key_length; ++d)
            target[d * 8] = source[d] * a.scale;
        if (a.store->read_as() != KvType::int4)
            continue;
        float* sums = target + int64_t{8} * key_length;
        for (int first = 0; first < key_length; first += 16, sums += 8) {
            *sums = 0.0f;
            for (int d = first; d < std::min(first + 16, key_length); ++d)
                *sums += target[d * 8];
        }
    }

    AttentionPart part{};
    part.key_length = key_length;
    part.value_length = static_cast<int>(value_length);
    part.queries = queries;
    part.q = q;
    part.tokens = tokens;
    part.scores = scores;
    const auto results_to = [&part, queries](float* target) {
        part.peak = target;
        part.sum = target + queries;
        part.out = target + 2 * queries;
    };
    const auto run_part = [&](int p) {
        for (int i = 0; i < queries; ++i)
            tokens[i] = static_cast<int32_t>(tile.tokens(i / tile.heads, p));
        a.store->fill_part(part, a.layer, tile.kv_head, job.block_tables + tile.table_offset,
                           int64_t{p} * part_tokens, tile.tokens(tile.rows - 1, p), store_scratch);
        kernels_.attention[static_cast<size_t>(a.store->read_as())](part);
    };

    if (split) {
        const int p = plan.parts[static_cast<size_t>(item)].second;
        results_to(job.partials(tile, partials_.as<float>()) +
                   static_cast<size_t>(p) * job.partial_floats(tile));
        run_part(p);
        return;
    }
    results_to(state);
    run_part(0);
    results_to(results);
    for (int p = 1; p < tile.parts; ++p) {
        run_part(p);
        for (int i = 0; i < queries; ++i)
            if (tokens[i] > 0)
                kernels_.combine(state + i, state + queries + i, state + 2 * queries + i * value_length,
                                 part.peak[i], part.sum[i], part.out + i * value_length, part.value_length);
    }
    for (int i = 0; i < queries; ++i)
        kernels_.divide(state + 2 * queries + i * value_length, state[queries + i], job.output(tile, i),
                        value_length);
}

void Program::finish_attention(const AttentionJob& job, int64_t index) {
    const AttentionPlan::Tile& tile = job.plan->tiles[static_cast<size_t>(index)];
    const int64_t value_length = job.value_length();
    const int queries = tile.queries();
    float* state = job.partials(tile, partials_.as<float>());
    for (int i = 0; i < queries; ++i) {
        float* out = state + 2 * queries + i * value_length;
        for (int p = 1; p < tile.parts; ++p) {
            const float* part = state + static_cast<size_t>(p) * job.partial_floats(tile);
            if (tile.tokens(i / tile.heads, p) > 0)
                kernels_.combine(state + i, state + queries + i, out, part[i], part[queries + i],
                                 part + 2 * queries + i * value_length, static_cast<int>(value_length));
        }
        kernels_.divide(out, state[queries + i], job.output(tile, i), value_length);
    }
}

} // namespace orrery::kernels::cpu
