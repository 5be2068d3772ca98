// Keys and values in blocks, laid out for attention on a CPU.
//
// A block holds, for each layer and each head of it, the keys of its tokens and then their values, in the
// bytes that kv_row.h defines for a row. Values lie along: one token's row after the other. Keys lie across,
// in tiles of 16 tokens, so that a vector holds one element of 16 tokens and scores need no horizontal sums:
//
//   f32, f16    [key_length][16]
//   int8        for each group of 32 elements: quants [32][16], 16 scales
//   int4        for each group of 32 elements: quants [16][16], two times 16 scales, two times 16 minima
//
// Where a value is the beginning of its key, values are not stored again.
//
// A cache whose blocks are not made of whole tiles keeps its keys along too, and a part of 256 tokens is
// decoded into scratch memory before it is used.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/quant/kv_row.h"

#include <cstdint>
#include <span>

namespace orrery::kernels::cpu {

/// Tokens of one part of the cache: attention's unit (see attention_kernels.inl.h).
inline constexpr int part_tokens = 256;

class KvStore {
public:
    explicit KvStore(const KvCacheSpec& spec);

    static size_t block_bytes(const KvCacheSpec& spec);

    const KvCacheSpec& spec() const { return spec_; }
    size_t bytes() const { return block_bytes_ * static_cast<size_t>(spec_.blocks); }
    size_t block_bytes() const { return block_bytes_; }
    /// Takes memory; false where there is not enough.
    bool allocate();

    std::byte* block(int32_t index) { return memory_.get() + static_cast<size_t>(index) * block_bytes_; }

    /// Stores one head's key and value of one token at a slot; no value where it lies in the key. `scratch`
    /// holds key_length floats, rounded up to a multiple of 32, twice.
    void store(int layer, int head, int64_t slot, const float* key, const float* value,
               const KernelTable& kernels, float* scratch);

    /// Float32 elements of scratch memory that fill_part() needs; 0 where it needs none.
    size_t scratch_floats() const;
    /// The kind of tiles that fill_part() points at.
    KvType read_as() const { return across_ ? spec_.type : KvType::f32; }
    /// Elements of a value as fill_part() gives it: where keys are rotated and hold their values, whole
    /// rotated pieces, and unrotate_value() turns what attention makes of them back.
    int value_length_as_read() const;
    bool rotates_values() const { return across_ && spec_.value_in_key && rotates_keys(spec_.type); }
    void unrotate_value(float* value) const;
    /// Points `part` at the tokens from first + begin to first + tokens of a sequence, `first` a multiple of
    /// 256.
    void fill_part(AttentionPart& part, int layer, int head, const int32_t* table, int64_t first,
                   int64_t begin, int64_t tokens, float* scratch);

private:
    struct Layout {
        bool across;
        size_t key_row; ///< bytes of a key's row
        size_t value_row;
        size_t values; ///< where a head's values start
        size_t head;   ///< bytes of a head in a block
    };
    static Layout layout(const KvCacheSpec& spec);

    std::byte* head(int layer, int head, int32_t block_index);

    KvCacheSpec spec_;
    Layout layout_;
    bool across_;
    size_t block_bytes_;
    Memory memory_;
};

} // namespace orrery::kernels::cpu
