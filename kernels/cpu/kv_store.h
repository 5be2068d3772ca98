// Keys and values in blocks, laid out for attention on a CPU.
//
// A block holds, for each layer and each head of it, the keys of its tokens and then their values. In
// float32 and float16, and where blocks are made of whole groups of 16 tokens, keys lie across:
// [tokens / 16][key_length][16], so that a vector holds one element of 16 tokens and scores need no
// horizontal sums; values lie along, [tokens][value_length]. All other caches keep rows as kv_row.h defines
// them, and a part of 256 tokens is decoded into scratch memory before it is used.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"

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

    /// Stores one head's key and value of one token at a slot. `scratch` holds key_length floats.
    void store(int layer, int head, int64_t slot, const float* key, const float* value,
               const KernelTable& kernels, float* scratch);

    /// Float32 elements of scratch memory that fill_part() needs; 0 where it needs none.
    size_t scratch_floats() const;
    /// True where attention reads float32 tiles, false where float16.
    bool reads_f32() const { return !across_ || spec_.type == KvType::f32; }
    /// Points `part` at the tokens first … first + tokens of a sequence, `first` a multiple of 256.
    void fill_part(AttentionPart& part, int layer, int head, const int32_t* table, int64_t first,
                   int64_t tokens, float* scratch);

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
