#include "kernels/cpu/kv_store.h"

#include "kernels/quant/block_layouts.h"
#include "kernels/quant/kv_row.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace orrery::kernels::cpu {

namespace {

/// Element `index` of an array that starts at `base`.
template <class T>
void put(std::byte* base, size_t index, T value) {
    std::memcpy(base + index * sizeof(T), &value, sizeof(T));
}

/// Encodes a key to blocks, in `row`, and lays their fields across the tile, in the lane of the token.
template <class Block>
void spread_key(const float* key, size_t key_length, std::byte* row, std::byte* tile, size_t lane) {
    encode_kv_row(std::is_same_v<Block, BlockQ8_0> ? KvType::int8 : KvType::int4, key, row, key_length);
    for (size_t first = 0; first < key_length;
         first += 32, row += sizeof(Block), tile += 16 * sizeof(Block)) {
        Block block;
        std::memcpy(&block, row, sizeof block);
        for (size_t i = 0; i < sizeof block.qs; ++i)
            put(tile, i * 16 + lane, block.qs[i]);
        std::byte* scales = tile + 16 * sizeof block.qs;
        if constexpr (std::is_same_v<Block, BlockQ8_0>) {
            put(scales, lane, block.d);
        } else {
            for (size_t half = 0; half < 2; ++half) {
                put(scales, half * 16 + lane, block.d[half]);
                put(scales, (2 + half) * 16 + lane, block.m[half]);
            }
        }
    }
}

} // namespace

KvStore::Layout KvStore::layout(const KvCacheSpec& spec) {
    Layout l{};
    l.across = spec.block_size % 16 == 0;
    l.key_row = row_bytes(spec.type, static_cast<size_t>(spec.key_length));
    l.value_row = spec.value_in_key ? 0 : row_bytes(spec.type, static_cast<size_t>(spec.value_length));
    const auto tokens = static_cast<size_t>(spec.block_size);
    l.values = align_up(tokens * l.key_row, cache_line);
    l.head = l.values + align_up(tokens * l.value_row, cache_line);
    return l;
}

size_t KvStore::block_bytes(const KvCacheSpec& spec) {
    return layout(spec).head * static_cast<size_t>(spec.kv_heads) * static_cast<size_t>(spec.layers);
}

KvStore::KvStore(const KvCacheSpec& spec)
    : spec_(spec), layout_(layout(spec)), across_(layout_.across), block_bytes_(block_bytes(spec)) {}

bool KvStore::allocate() {
    memory_ = allocate_memory(std::max<size_t>(bytes(), 1));
    return memory_ != nullptr;
}

std::byte* KvStore::head(int layer, int head, int32_t block_index) {
    const auto index =
        static_cast<size_t>(layer) * static_cast<size_t>(spec_.kv_heads) + static_cast<size_t>(head);
    return block(block_index) + index * layout_.head;
}

void KvStore::store(int layer, int head_index, int64_t slot, const float* key, const float* value,
                    const KernelTable& kernels, float* scratch) {
    std::byte* base = head(layer, head_index, static_cast<int32_t>(slot / spec_.block_size));
    const auto token = static_cast<size_t>(slot % spec_.block_size);
    std::byte* value_row = base + layout_.values + token * layout_.value_row;
    const auto key_length = static_cast<size_t>(spec_.key_length);
    if (rotates_keys(spec_.type)) {
        std::copy_n(key, key_length, scratch);
        rotate(scratch, key_length);
        key = scratch;
        scratch += align_up(key_length, 32);
    }
    if (!across_) {
        encode_kv_row(spec_.type, key, base + token * layout_.key_row, key_length);
        if (value != nullptr)
            encode_kv_row(spec_.type, value, value_row, static_cast<size_t>(spec_.value_length));
        return;
    }
    std::byte* tile = base + token / 16 * 16 * layout_.key_row;
    const size_t lane = token % 16;
    switch (spec_.type) {
    case KvType::f32:
        for (size_t d = 0; d < key_length; ++d)
            put(tile, d * 16 + lane, key[d]);
        if (value != nullptr)
            std::memcpy(value_row, value, layout_.value_row);
        break;
    case KvType::f16: {
        auto* halves = reinterpret_cast<uint16_t*>(scratch);
        kernels.to_half(key, halves, spec_.key_length);
        for (size_t d = 0; d < key_length; ++d)
            put(tile, d * 16 + lane, halves[d]);
        if (value != nullptr)
            kernels.to_half(value, reinterpret_cast<uint16_t*>(value_row), spec_.value_length);
        break;
    }
    case KvType::int8:
        spread_key<BlockQ8_0>(key, key_length, reinterpret_cast<std::byte*>(scratch), tile, lane);
        if (value != nullptr)
            encode_kv_row(KvType::int8, value, value_row, static_cast<size_t>(spec_.value_length));
        break;
    case KvType::int4:
        spread_key<BlockKv4>(key, key_length, reinterpret_cast<std::byte*>(scratch), tile, lane);
        if (value != nullptr)
            encode_kv_row(KvType::int4, value, value_row, static_cast<size_t>(spec_.value_length));
        break;
    }
}

size_t KvStore::scratch_floats() const {
    if (across_)
        return 0;
    // A part's keys and values, and one key's row on its way.
    const auto key_length = static_cast<size_t>(spec_.key_length);
    return part_tokens * (key_length + static_cast<size_t>(spec_.value_length)) + key_length;
}

namespace {

/// rotate() turns pieces of this many elements by themselves.
int rotated_piece(int elements) {
    return elements & -elements;
}

} // namespace

int KvStore::value_length_as_read() const {
    if (!rotates_values())
        return spec_.value_length;
    const int piece = rotated_piece(spec_.key_length);
    return (spec_.value_length + piece - 1) / piece * piece;
}

void KvStore::unrotate_value(float* value) const {
    const int piece = rotated_piece(spec_.key_length);
    for (int first = 0; first < spec_.value_length; first += piece)
        rotate(value + first, static_cast<size_t>(piece));
}

void KvStore::fill_part(AttentionPart& part, int layer, int head_index, const int32_t* table, int64_t first,
                        int64_t begin, int64_t tokens, float* scratch) {
    const auto block_size = static_cast<int64_t>(spec_.block_size);
    const auto key_length = static_cast<size_t>(spec_.key_length);
    const auto value_length = static_cast<size_t>(spec_.value_length);
    part.value_in_key = across_ && spec_.value_in_key;
    const int64_t first_tile = begin / 16 * 16;
    if (across_) {
        for (int64_t t = first_tile; t < tokens; t += 16) {
            const int64_t position = first + t;
            std::byte* base = head(layer, head_index, table[position / block_size]);
            const auto token = static_cast<size_t>(position % block_size);
            part.keys[t / 16] = base + token * layout_.key_row; // 16 tokens take 16 rows, across as along
            part.values[t / 16] = base + layout_.values + token * layout_.value_row;
        }
        return;
    }
    float* keys = scratch;
    float* values = keys + part_tokens * key_length;
    float* row = values + part_tokens * value_length;
    for (int64_t t = begin; t < tokens; ++t) {
        const int64_t position = first + t;
        std::byte* base = head(layer, head_index, table[position / block_size]);
        const auto token = static_cast<size_t>(position % block_size);
        decode_kv_row(spec_.type, base + token * layout_.key_row, row, key_length);
        float* tile = keys + static_cast<size_t>(t / 16) * 16 * key_length + t % 16;
        for (size_t d = 0; d < key_length; ++d)
            tile[d * 16] = row[d];
        float* value = values + static_cast<size_t>(t) * value_length;
        if (spec_.value_in_key) {
            if (rotates_keys(spec_.type))
                rotate(row, key_length);
            std::copy_n(row, value_length, value);
        } else {
            decode_kv_row(spec_.type, base + layout_.values + token * layout_.value_row, value, value_length);
        }
    }
    for (int64_t t = first_tile; t < tokens; t += 16) {
        part.keys[t / 16] = keys + static_cast<size_t>(t) * key_length;
        part.values[t / 16] = values + static_cast<size_t>(t) * value_length;
    }
}

} // namespace orrery::kernels::cpu
