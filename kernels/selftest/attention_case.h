// Some random sequences over one paged cache: rotation, storing and attention.
#pragma once

#include "kernels/selftest/support.h"

#include <string>

namespace orrery::kernels::selftest {

class AttentionCase {
public:
    /// Some rows of one sequence that run in one batch.
    struct Piece {
        size_t sequence;
        int32_t first_position;
        int32_t rows;
    };
    /// Batches of pieces, one after the other.
    using Plan = std::vector<std::vector<Piece>>;
    struct Outcome {
        std::vector<Floats> turned; ///< per sequence [tokens, width]: qkv after rope_store
        std::vector<Floats> out;    ///< per sequence [tokens, heads · value_length]
    };

    /// One to four sequences of 1 to 70 tokens; the first has 257 to 560 where `long_context`.
    AttentionCase(KvType type, bool long_context, Random& random);

    const std::string& shape() const { return shape_; }
    const KvCacheSpec& spec() const { return spec_; }
    /// All sequences, whole, in one batch.
    Plan whole() const;
    /// All sequences side by side in pieces of random sizes, with many single rows.
    Plan pieces(Random& random) const;

    /// Gives the sequences other blocks, scattered over the cache. Half of its blocks stay spare.
    void scatter(Random& random);
    Outcome run(Backend& backend, KvCache cache, const Plan& plan) const;
    /// Moves the first sequence's blocks to spare ones, every other one by copy_kv_blocks, the rest over the
    /// host, and computes its last row again: [heads · value_length].
    Floats last_row_from_moved_blocks(Backend& backend, KvCache cache);
    /// The same row of an outcome.
    Floats last_row(const Outcome& outcome) const;

private:
    size_t width() const;
    size_t out_width() const;
    int32_t tokens(size_t sequence) const;

    KvCacheSpec spec_;
    int layer_ = 0;
    int heads_ = 0;
    float scale_ = 0.0f;
    int dimensions_ = 0;
    RopeStyle style_ = RopeStyle::interleaved;
    Floats rope_;
    std::vector<Floats> sequences_; ///< qkv of each, [tokens, width]
    std::vector<std::vector<int32_t>> block_tables_;
    std::vector<int32_t> spare_blocks_;
    std::string shape_;
};

} // namespace orrery::kernels::selftest
