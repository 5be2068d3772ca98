#include "kernels/selftest/attention_case.h"

#include <numeric>
#include <utility>

namespace orrery::kernels::selftest {

AttentionCase::AttentionCase(KvType type, bool long_context, Random& random) {
    const auto [heads, kv_heads] =
        random.one_of<std::pair<int, int>>({{1, 1}, {4, 4}, {9, 3}, {8, 2}, {6, 1}, {10, 5}});
    heads_ = heads;
    spec_.type = type;
    spec_.layers = random.number(1, 3);
    spec_.kv_heads = kv_heads;
    spec_.key_length = random.one_of({8, 16, 36, 64, 80, 96, 128, 192});
    spec_.value_length = random.number(0, 2) ? spec_.key_length : random.one_of({8, 36, 64, 128});
    spec_.block_size = random.one_of({1, 4, 7, 16, 32});
    layer_ = random.number(0, spec_.layers - 1);
    scale_ = 1.0f / std::sqrt(static_cast<float>(spec_.key_length));
    dimensions_ = random.one_of({0, spec_.key_length, spec_.key_length / 4 * 2});
    style_ = random.one_of({RopeStyle::interleaved, RopeStyle::halves});

    const int count = random.number(1, 4);
    int longest = 0;
    for (int i = 0; i < count; ++i) {
        const int length = long_context && i == 0 ? random.number(257, 560) : random.number(1, 70);
        longest = std::max(longest, length);
        sequences_.push_back(random.normal(static_cast<size_t>(length) * width()));
        const int blocks = (length + spec_.block_size - 1) / spec_.block_size;
        block_tables_.emplace_back(static_cast<size_t>(blocks));
        spec_.blocks += 2 * blocks;
        shape_ += (i ? " + " : "") + std::to_string(length);
    }
    for (int position = 0; position < longest; ++position)
        for (int pair = 0; pair < dimensions_ / 2; ++pair) {
            const double angle = position * std::pow(10000.0, -2.0 * pair / dimensions_);
            rope_.push_back(static_cast<float>(std::cos(angle)));
            rope_.push_back(static_cast<float>(std::sin(angle)));
        }
    scatter(random);

    shape_ += " tokens in blocks of " + std::to_string(spec_.block_size) + ", " + std::to_string(heads_) +
              " heads over " + std::to_string(spec_.kv_heads) + ", keys " + std::to_string(spec_.key_length) +
              ", values " + std::to_string(spec_.value_length) + ", " + std::to_string(dimensions_) +
              " turned " + (style_ == RopeStyle::halves ? "(halves)" : "(interleaved)");
}

size_t AttentionCase::width() const {
    return static_cast<size_t>((heads_ + spec_.kv_heads) * spec_.key_length +
                               spec_.kv_heads * spec_.value_length);
}

size_t AttentionCase::out_width() const {
    return static_cast<size_t>(heads_ * spec_.value_length);
}

int32_t AttentionCase::tokens(size_t sequence) const {
    return static_cast<int32_t>(sequences_[sequence].size() / width());
}

void AttentionCase::scatter(Random& random) {
    spare_blocks_.resize(static_cast<size_t>(spec_.blocks));
    std::iota(spare_blocks_.begin(), spare_blocks_.end(), 0);
    std::shuffle(spare_blocks_.begin(), spare_blocks_.end(), random.bits());
    for (std::vector<int32_t>& table : block_tables_)
        for (int32_t& block : table) {
            block = spare_blocks_.back();
            spare_blocks_.pop_back();
        }
}

AttentionCase::Plan AttentionCase::whole() const {
    Plan plan(1);
    for (size_t sequence = 0; sequence < sequences_.size(); ++sequence)
        plan[0].push_back({sequence, 0, tokens(sequence)});
    return plan;
}

AttentionCase::Plan AttentionCase::pieces(Random& random) const {
    std::vector<Piece> rest = whole()[0];
    Plan plan;
    while (!rest.empty()) {
        plan.emplace_back();
        for (Piece& piece : rest) {
            const int rows =
                std::min(piece.rows, random.one_of({1, 1, random.number(2, 9), random.number(10, 80)}));
            plan.back().push_back({piece.sequence, piece.first_position, rows});
            piece.first_position += rows;
            piece.rows -= rows;
        }
        std::erase_if(rest, [](const Piece& piece) { return piece.rows == 0; });
    }
    return plan;
}

AttentionCase::Outcome AttentionCase::run(Backend& backend, KvCache cache, const Plan& plan) const {
    const OnDevice rope(backend, rope_);
    Outcome outcome;
    for (size_t sequence = 0; sequence < sequences_.size(); ++sequence) {
        outcome.turned.emplace_back(sequences_[sequence].size());
        outcome.out.emplace_back(static_cast<size_t>(tokens(sequence)) * out_width());
    }
    for (const std::vector<Piece>& pieces : plan) {
        Floats rows;
        std::vector<int32_t> positions;
        BlockTables tables;
        std::vector<Span> spans;
        for (const Piece& piece : pieces) {
            const std::vector<int32_t>& table = block_tables_[piece.sequence];
            spans.push_back({static_cast<int32_t>(positions.size()), piece.rows, piece.first_position});
            tables.add(table);
            for (int32_t i = 0; i < piece.rows; ++i) {
                const int32_t position = piece.first_position + i;
                const int32_t block = table[static_cast<size_t>(position / spec_.block_size)];
                positions.push_back(position);
                tables.kv_slots.push_back(block * spec_.block_size + position % spec_.block_size);
                const float* row = &sequences_[piece.sequence][static_cast<size_t>(position) * width()];
                rows.insert(rows.end(), row, row + width());
            }
        }

        const OnDevice qkv(backend, rows);
        const OnDevice out(backend, positions.size() * out_width());
        const std::vector<int32_t> ids(positions.size());
        const BlockLayout layout = tables.layout();
        backend.begin({ids, positions, spans, {&layout, 1}, {}, {}});
        const View all = matrix(qkv, static_cast<int64_t>(positions.size()), static_cast<int64_t>(width()));
        const int64_t keys = int64_t{heads_} * spec_.key_length;
        const int64_t values = keys + int64_t{spec_.kv_heads} * spec_.key_length;
        backend.rope_store({.q = all.slice(0, keys),
                            .k = all.slice(keys, values - keys),
                            .v = all.slice(values, all.columns - values),
                            .cache = cache,
                            .layer = layer_,
                            .heads = heads_,
                            .rope = {.table = dimensions_ > 0 ? Buffer(rope) : Buffer(),
                                     .dimensions = dimensions_,
                                     .style = style_}});
        backend.attention({.q = all.slice(0, keys),
                           .out = matrix(out, all.rows, static_cast<int64_t>(out_width())),
                           .cache = cache,
                           .layer = layer_,
                           .heads = heads_,
                           .scale = scale_});

        const Floats turned = qkv.download(rows.size());
        const Floats attended = out.download(positions.size() * out_width());
        for (size_t i = 0; i < pieces.size(); ++i) {
            const auto put = [&](const Floats& from, Floats& to, size_t row_width) {
                std::copy_n(&from[static_cast<size_t>(spans[i].first_row) * row_width],
                            static_cast<size_t>(spans[i].rows) * row_width,
                            &to[static_cast<size_t>(spans[i].first_position) * row_width]);
            };
            put(turned, outcome.turned[pieces[i].sequence], width());
            put(attended, outcome.out[pieces[i].sequence], out_width());
        }
    }
    return outcome;
}

Floats AttentionCase::last_row(const Outcome& outcome) const {
    return {outcome.out[0].end() - static_cast<std::ptrdiff_t>(out_width()), outcome.out[0].end()};
}

Floats AttentionCase::last_row_from_moved_blocks(Backend& backend, KvCache cache) {
    const size_t block_bytes = backend.kv_block_bytes(spec_);
    std::vector<BlockCopy> copies;
    std::vector<BlockTransfer> out, in;
    for (size_t i = 0; i < block_tables_[0].size(); ++i) {
        const int32_t from = block_tables_[0][i];
        const int32_t to = spare_blocks_.back();
        spare_blocks_.pop_back();
        if (i % 2 == 0) {
            copies.push_back({from, to});
        } else {
            const size_t offset = out.size() * block_bytes;
            out.push_back({from, offset});
            in.push_back({to, offset});
        }
        block_tables_[0][i] = to;
    }
    const Owned host(backend, backend.allocate_host(std::max<size_t>(out.size(), 1) * block_bytes));
    backend.copy_kv_blocks_out(cache, out, host);
    backend.copy_kv_blocks_in(cache, in, host);
    backend.copy_kv_blocks(cache, copies);
    // The row's own key is stored anew, in the moved block; all others are what was moved.
    return last_row(run(backend, cache, {{{0, tokens(0) - 1, 1}}}));
}

} // namespace orrery::kernels::selftest
