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

/// A position as seen from the start of a part, cut to it.
int64_t within_part(int64_t position, int part) {
    return std::clamp<int64_t>(position - int64_t{part} * part_tokens, 0, part_tokens);
}

} // namespace

/// Some rows of a span with some query heads of one key/value head.
struct Program::AttentionTile {
    int64_t first_row; ///< in the batch
    int64_t first_position;
    int rows;
    int kv_head;
    int first_head; ///< query heads
    int heads;
    int32_t table_offset;
    int first_part;  ///< of 256 tokens, the first one that a row sees
    int parts;       ///< from there on
    size_t partials; ///< queries and parts of the tiles before

    int queries() const { return rows * heads; }
    /// Row of the batch and head of a query.
    int64_t row(int query) const { return first_row + query / heads; }
    int head(int query) const { return first_head + query % heads; }
    /// Tokens of a part up to the row's own position.
    int64_t tokens(int row, int part) const { return within_part(first_position + row + 1, part); }
};

/// Which queries are worked on together: made once a batch for all layers of one shape.
struct Program::AttentionPlan {
    struct Shape {
        int layout = 0;
        int heads = 0;
        int kv_heads = 0;
        int block_size = 0;
        int blocks = 0;
        int window = 0;
        bool chunked = false;
        bool operator==(const Shape&) const = default;
    };
    Shape shape;
    std::vector<AttentionTile> tiles;
    /// Where the parts of a tile are worked on apart: {tile, part}.
    std::vector<std::pair<int, int>> parts;
    size_t partials = 0; ///< queries times parts of all tiles
    int max_queries = 0;
};

struct Program::AttentionJob {
    AttentionArguments arguments;
    const AttentionPlan* plan = nullptr;
    const int32_t* block_tables = nullptr;

    int64_t value_length() const { return arguments.store->value_length_as_read(); }
    int64_t first_seen(const AttentionTile& tile, int row) const {
        return arguments.first_seen(tile.first_position + row);
    }
    int first_part(const AttentionTile& tile, int row) const {
        return static_cast<int>(first_seen(tile, row) / part_tokens);
    }
    int last_part(const AttentionTile& tile, int row) const {
        return static_cast<int>((tile.first_position + row) / part_tokens);
    }
    /// Floats of one part's results: peak and sum of each query, then the weighted values.
    size_t partial_floats(const AttentionTile& tile) const {
        return static_cast<size_t>(tile.queries() * (value_length() + 2));
    }
    float* partials(const AttentionTile& tile, float* all) const {
        return all + tile.partials * static_cast<size_t>(value_length() + 2);
    }
    float* output(const AttentionTile& tile, int query) const {
        return arguments.out.row(tile.row(query)) +
               int64_t{tile.head(query)} * arguments.store->spec().value_length;
    }
};

/// What some parts of the cache make of a query.
struct Program::Partial {
    float* peak;
    float* sum;
    float* values; ///< [value_length]
};

Program::Batch::Batch() = default;
Program::Batch::~Batch() = default;

const Program::AttentionPlan& Program::attention_plan(const AttentionArguments& a) {
    const KvCacheSpec& spec = a.store->spec();
    const AttentionPlan::Shape shape{a.layout,    a.heads,  spec.kv_heads, spec.block_size,
                                     spec.blocks, a.window, a.chunked};
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
        if (blocks.table_offsets[s] < 0 ||
            blocks.table_offsets[s] + last_block >= static_cast<int64_t>(blocks.block_tables.size()))
            throw Error("A block table ends before position " +
                        std::to_string(span.first_position + span.rows) + ".");
        // Blocks before the first one that a row sees may have been given back.
        for (int64_t i = a.first_seen(span.first_position) / spec.block_size; i <= last_block; ++i) {
            const int32_t block = blocks.block_tables[static_cast<size_t>(blocks.table_offsets[s] + i)];
            if (block < 0 || block >= spec.blocks)
                throw Error("Block " + std::to_string(block) + " is not one of the " +
                            std::to_string(spec.blocks) + " blocks of the key/value cache.");
        }
        for (int row = 0; row < span.rows; row += height)
            for (int head = 0; head < a.heads; head += std::min(slice, group - head % group)) {
                AttentionTile tile{};
                tile.first_row = span.first_row + row;
                tile.first_position = span.first_position + row;
                tile.rows = std::min(height, span.rows - row);
                tile.kv_head = head / group;
                tile.first_head = head;
                tile.heads = std::min(slice, group - head % group);
                tile.table_offset = blocks.table_offsets[s];
                tile.first_part = static_cast<int>(a.first_seen(tile.first_position) / part_tokens);
                tile.parts = static_cast<int>((tile.first_position + tile.rows - 1) / part_tokens) -
                             tile.first_part + 1;
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
    const int64_t value_length = job.value_length();
    grow_scratch((static_cast<size_t>(
                      queries * (query_rows(spec.key_length) + part_tokens + 4 + 2 * (value_length + 2)) +
                      spec.key_length + value_length) +
                  a.store->scratch_floats()) *
                 sizeof(float));

    if (!batch_->padding.empty())
        record(&KernelProfile::attention_ns, static_cast<int64_t>(batch_->padding.size()), 1,
               [a, padding = batch_->padding.data()](int64_t first, int64_t last, int) {
                   for (int64_t i = first; i < last; ++i)
                       std::fill_n(a.out.row(padding[i]), int64_t{a.heads} * a.store->spec().value_length,
                                   0.0f);
               });
    const auto tiles = static_cast<int64_t>(job.plan->tiles.size());
    if (!job.plan->parts.empty()) {
        partials_.grow(job.plan->partials * static_cast<size_t>(value_length + 2) * sizeof(float));
        record(&KernelProfile::attention_ns, static_cast<int64_t>(job.plan->parts.size()), 1,
               [this, job](int64_t first, int64_t last, int thread) {
                   for (int64_t i = first; i < last; ++i)
                       run_attention(job, i, thread);
               });
        record(&KernelProfile::attention_ns, tiles, 1, [this, job](int64_t first, int64_t last, int thread) {
            for (int64_t i = first; i < last; ++i)
                combine_parts(job, i, thread);
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
    const AttentionTile& tile =
        plan.tiles[static_cast<size_t>(split ? plan.parts[static_cast<size_t>(item)].first : item)];
    const AttentionArguments& a = job.arguments;
    const KvCacheSpec& spec = a.store->spec();
    const int key_length = spec.key_length;
    const int64_t value_length = job.value_length();
    const int queries = tile.queries();
    const int64_t padded = round_up_8(queries);

    float* at = scratch<float>(thread);
    const auto take = [&at](int64_t count) { return std::exchange(at, at + count); };
    const auto take_integers = [&take](int64_t count) { return reinterpret_cast<int32_t*>(take(count)); };
    float* value_scratch = take(value_length);
    float* q = take(padded * query_rows(key_length));
    float* scores = take(padded * part_tokens);
    int32_t* tokens = take_integers(padded);
    int32_t* first_tokens = take_integers(padded);
    int32_t* positions = take_integers(padded);
    float* slopes = take(padded);
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
    part.soft_cap = a.soft_cap;
    if (a.alibi != nullptr) {
        for (int i = 0; i < queries; ++i)
            slopes[i] = a.alibi[tile.head(i)];
        part.alibi = slopes;
        part.positions = positions;
    }
    const auto results_to = [&part, queries](float* target) {
        part.peak = target;
        part.sum = target + queries;
        part.out = target + 2 * queries;
    };
    const auto run_part = [&](int p) {
        bool windowed = false;
        for (int i = 0; i < queries; ++i) {
            const int row = i / tile.heads;
            tokens[i] = static_cast<int32_t>(tile.tokens(row, p));
            first_tokens[i] = static_cast<int32_t>(within_part(job.first_seen(tile, row), p));
            positions[i] = static_cast<int32_t>(tile.first_position + row - int64_t{p} * part_tokens);
            windowed = windowed || first_tokens[i] > 0;
        }
        part.first_tokens = windowed ? first_tokens : nullptr;
        a.store->fill_part(part, a.layer, tile.kv_head, job.block_tables + tile.table_offset,
                           int64_t{p} * part_tokens, first_tokens[0], tile.tokens(tile.rows - 1, p),
                           store_scratch);
        kernels_.attention[static_cast<size_t>(a.store->read_as())](part);
    };

    if (split) {
        const int p = plan.parts[static_cast<size_t>(item)].second;
        results_to(job.partials(tile, partials_.as<float>()) +
                   static_cast<size_t>(p) * job.partial_floats(tile));
        run_part(tile.first_part + p);
        return;
    }
    results_to(state);
    run_part(tile.first_part);
    results_to(results);
    for (int p = tile.first_part + 1; p < tile.first_part + tile.parts; ++p) {
        run_part(p);
        for (int i = 0; i < queries; ++i)
            add_part(job, tile, i, p,
                     {state + i, state + queries + i, state + 2 * queries + i * value_length},
                     {part.peak + i, part.sum + i, part.out + i * value_length});
    }
    for (int i = 0; i < queries; ++i)
        finish_query(job, tile, i, {state + i, state + queries + i, state + 2 * queries + i * value_length},
                     value_scratch);
}

void Program::combine_parts(const AttentionJob& job, int64_t index, int thread) {
    const AttentionTile& tile = job.plan->tiles[static_cast<size_t>(index)];
    const int queries = tile.queries();
    float* partials = job.partials(tile, partials_.as<float>());
    const auto partial = [&](int part, int query) -> Partial {
        float* at = partials + static_cast<size_t>(part - tile.first_part) * job.partial_floats(tile);
        return {at + query, at + queries + query, at + 2 * queries + query * job.value_length()};
    };
    for (int i = 0; i < queries; ++i) {
        const Partial state = partial(tile.first_part, i);
        for (int p = tile.first_part + 1; p < tile.first_part + tile.parts; ++p)
            add_part(job, tile, i, p, state, partial(p, i));
        finish_query(job, tile, i, state, scratch<float>(thread));
    }
}

/// Parts that a query does not see leave no trace, not even in the sign of a zero.
void Program::add_part(const AttentionJob& job, const AttentionTile& tile, int query, int part,
                       const Partial& state, const Partial& added) const {
    const int row = query / tile.heads;
    if (part < job.first_part(tile, row) || part > job.last_part(tile, row))
        return;
    const auto value_length = static_cast<int>(job.value_length());
    if (part > job.first_part(tile, row)) {
        kernels_.combine(state.peak, state.sum, state.values, *added.peak, *added.sum, added.values,
                         value_length);
        return;
    }
    *state.peak = *added.peak;
    *state.sum = *added.sum;
    std::copy_n(added.values, value_length, state.values);
}

void Program::finish_query(const AttentionJob& job, const AttentionTile& tile, int query,
                           const Partial& state, float* value_scratch) const {
    const AttentionArguments& a = job.arguments;
    const auto value_length = static_cast<int>(job.value_length());
    if (a.sinks != nullptr) { // one more part, of one token whose value is 0
        std::fill_n(value_scratch, value_length, 0.0f);
        kernels_.combine(state.peak, state.sum, state.values, a.sinks[tile.head(query)], 1.0f, value_scratch,
                         value_length);
    }
    float* out = job.output(tile, query);
    if (!a.store->rotates_values()) {
        kernels_.divide(state.values, *state.sum, out, value_length);
        return;
    }
    kernels_.divide(state.values, *state.sum, value_scratch, value_length);
    a.store->unrotate_value(value_scratch);
    std::copy_n(value_scratch, a.store->spec().value_length, out);
}

} // namespace orrery::kernels::cpu
