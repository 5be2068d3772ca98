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

struct Program::AttentionJob {
    /// Some rows of a span with one key/value head.
    struct Tile {
        int64_t first_row; ///< in the batch
        int64_t first_position;
        int rows;
        int head;
        int32_t table_offset;
        int parts;       ///< of 256 tokens
        size_t partials; ///< where its first part goes in Program::partials_, in floats
    };
    std::shared_ptr<const Batch> batch;
    AttentionArguments arguments;
    const Layout* layout = nullptr;
    int group = 0; ///< query heads per key/value head
    std::vector<Tile> tiles;
    /// Where the parts of a tile are worked on apart: {tile, part}.
    std::vector<std::pair<int, int>> parts;

    int64_t value_length() const { return arguments.store->spec().value_length; }
    /// Floats of one part's results: peak and sum of each query, then the weighted values.
    size_t partial_floats(const Tile& tile) const {
        return static_cast<size_t>(int64_t{tile.rows} * group * (value_length() + 2));
    }
    int64_t tokens(const Tile& tile, int row, int part) const {
        return std::clamp<int64_t>(tile.first_position + row + 1 - int64_t{part} * part_tokens, 0,
                                   part_tokens);
    }
    float* output(const Tile& tile, int query) const {
        const int64_t row = tile.first_row + query / group;
        return arguments.out.row(row) + (tile.head * group + query % group) * value_length();
    }
};

void Program::attention(const AttentionArguments& a) {
    const KvStore& store = *a.store;
    const KvCacheSpec& spec = store.spec();
    auto job = std::make_shared<AttentionJob>();
    job->batch = batch_;
    job->arguments = a;
    job->layout = &layout(a.layout);
    job->group = a.heads / spec.kv_heads;
    if (job->layout->table_offsets.size() != batch_->spans.size())
        throw Error("The batch has " + std::to_string(batch_->spans.size()) + " spans and " +
                    std::to_string(job->layout->table_offsets.size()) + " block tables.");

    const int tile_height = std::max(1, queries_per_tile / job->group);
    size_t partials = 0;
    for (size_t s = 0; s < batch_->spans.size(); ++s) {
        const Span& span = batch_->spans[s];
        const int32_t table_offset = job->layout->table_offsets[s];
        const int64_t blocks =
            (int64_t{span.first_position} + span.rows + spec.block_size - 1) / spec.block_size;
        if (table_offset + blocks > static_cast<int64_t>(job->layout->block_tables.size()))
            throw Error("A block table ends before position " +
                        std::to_string(span.first_position + span.rows) + ".");
        for (int row = 0; row < span.rows; row += tile_height)
            for (int head = 0; head < spec.kv_heads; ++head) {
                AttentionJob::Tile tile{};
                tile.first_row = span.first_row + row;
                tile.first_position = span.first_position + row;
                tile.rows = std::min(tile_height, span.rows - row);
                tile.head = head;
                tile.table_offset = table_offset;
                tile.parts = static_cast<int>((tile.first_position + tile.rows - 1) / part_tokens + 1);
                tile.partials = partials;
                partials += job->partial_floats(tile) * static_cast<size_t>(tile.parts);
                job->tiles.push_back(tile);
            }
    }
    const int64_t queries = round_up_8(int64_t{tile_height} * job->group);
    grow_scratch((static_cast<size_t>(queries * (query_rows(spec.key_length) + part_tokens + 1 +
                                                 2 * (spec.value_length + 2)) +
                                      spec.key_length) +
                  store.scratch_floats()) *
                 sizeof(float));

    const auto tiles = static_cast<int64_t>(job->tiles.size());
    const bool long_context = std::any_of(job->tiles.begin(), job->tiles.end(),
                                          [](const AttentionJob::Tile& t) { return t.parts > 1; });
    if (long_context && tiles < int64_t{pool_.threads()} * 8) {
        partials_.grow(partials * sizeof(float));
        for (int t = 0; t < static_cast<int>(tiles); ++t)
            for (int p = 0; p < job->tiles[static_cast<size_t>(t)].parts; ++p)
                job->parts.emplace_back(t, p);
        record(&KernelProfile::attention_ns, static_cast<int64_t>(job->parts.size()), 1,
               [this, job](int64_t first, int64_t last, int thread) {
                   for (int64_t i = first; i < last; ++i)
                       run_attention(*job, i, thread);
               });
        record(&KernelProfile::attention_ns, tiles, 1, [this, job](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i)
                finish_attention(*job, i);
        });
    } else {
        // The tiles with the longest contexts come last in a span; begin with them.
        record(&KernelProfile::attention_ns, tiles, 1,
               [this, job, tiles](int64_t first, int64_t last, int thread) {
                   for (int64_t i = first; i < last; ++i)
                       run_attention(*job, tiles - 1 - i, thread);
               });
    }
}

void Program::run_attention(const AttentionJob& job, int64_t item, int thread) {
    const bool split = !job.parts.empty();
    const AttentionJob::Tile& tile =
        job.tiles[static_cast<size_t>(split ? job.parts[static_cast<size_t>(item)].first : item)];
    const AttentionArguments& a = job.arguments;
    const KvCacheSpec& spec = a.store->spec();
    const int key_length = spec.key_length;
    const int64_t value_length = spec.value_length;
    const int queries = tile.rows * job.group;
    const int64_t padded = round_up_8(queries);

    float* at = threads_[static_cast<size_t>(thread)].scratch.as<float>();
    const auto take = [&at](int64_t count) { return std::exchange(at, at + count); };
    float* q = take(padded * query_rows(key_length));
    float* scores = take(padded * part_tokens);
    auto* tokens = reinterpret_cast<int32_t*>(take(padded));
    float* results = take(padded * (value_length + 2));
    float* state = take(padded * (value_length + 2));
    float* row_scratch = take(key_length);
    float* store_scratch = at;

    for (int i = 0; i < queries; ++i) {
        const float* source = a.q.row(tile.first_row + i / job.group) +
                              int64_t{tile.head * job.group + i % job.group} * key_length;
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
            tokens[i] = static_cast<int32_t>(job.tokens(tile, i / job.group, p));
        a.store->fill_part(part, a.layer, tile.head, job.layout->block_tables.data() + tile.table_offset,
                           int64_t{p} * part_tokens, job.tokens(tile, tile.rows - 1, p), store_scratch);
        kernels_.attention[static_cast<size_t>(a.store->read_as())](part);
    };

    if (split) {
        const int p = job.parts[static_cast<size_t>(item)].second;
        results_to(partials_.as<float>() + tile.partials + static_cast<size_t>(p) * job.partial_floats(tile));
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
    const AttentionJob::Tile& tile = job.tiles[static_cast<size_t>(index)];
    const int64_t value_length = job.value_length();
    const int queries = tile.rows * job.group;
    float* state = partials_.as<float>() + tile.partials;
    for (int i = 0; i < queries; ++i) {
        float* out = state + 2 * queries + i * value_length;
        for (int p = 1; p < tile.parts; ++p) {
            const float* part = state + static_cast<size_t>(p) * job.partial_floats(tile);
            if (job.tokens(tile, i / job.group, p) > 0)
                kernels_.combine(state + i, state + queries + i, out, part[i], part[queries + i],
                                 part + 2 * queries + i * value_length, static_cast<int>(value_length));
        }
        kernels_.divide(out, state[queries + i], job.output(tile, i), value_length);
    }
}

} // namespace orrery::kernels::cpu
