#include "kernels/quant/tensor_type.h"

#include "kernels/quant/block_layouts.h"

#include <array>
#include <bit>
#include <cstring>

namespace orrery::kernels {

static_assert(std::endian::native == std::endian::little, "the block layouts are little endian");

namespace {

template <typename Block>
void decode_blocks(const std::byte* source, float* target, size_t elements) {
    for (size_t i = 0; i < elements; i += Block::elements, source += sizeof(Block)) {
        Block block; // a copy, since the source may be unaligned
        std::memcpy(&block, source, sizeof block);
        decode_block(block, target + i);
    }
}

struct Entry {
    TensorType type = TensorType::F32;
    TensorTypeInfo info = {};
    void (*decode)(const std::byte*, float*, size_t) = nullptr;
};

template <typename Block, size_t FileBytes>
constexpr Entry entry(const char* name) {
    static_assert(sizeof(Block) == FileBytes, "the struct has padding that the file has not");
    return {Block::type, {name, Block::elements, sizeof(Block)}, decode_blocks<Block>};
}

constexpr std::array entries = {
    entry<BlockF32, 4>("F32"),          entry<BlockF16, 2>("F16"),         entry<BlockQ4_0, 18>("Q4_0"),
    entry<BlockQ4_1, 20>("Q4_1"),       entry<BlockQ5_0, 22>("Q5_0"),      entry<BlockQ5_1, 24>("Q5_1"),
    entry<BlockQ8_0, 34>("Q8_0"),       entry<BlockQ2_K, 84>("Q2_K"),      entry<BlockQ3_K, 110>("Q3_K"),
    entry<BlockQ4_K, 144>("Q4_K"),      entry<BlockQ5_K, 176>("Q5_K"),     entry<BlockQ6_K, 210>("Q6_K"),
    entry<BlockIQ2_XXS, 66>("IQ2_XXS"), entry<BlockIQ2_XS, 74>("IQ2_XS"),  entry<BlockIQ3_XXS, 98>("IQ3_XXS"),
    entry<BlockIQ1_S, 50>("IQ1_S"),     entry<BlockIQ4_NL, 18>("IQ4_NL"),  entry<BlockIQ3_S, 110>("IQ3_S"),
    entry<BlockIQ2_S, 82>("IQ2_S"),     entry<BlockIQ4_XS, 136>("IQ4_XS"), entry<BlockIQ1_M, 56>("IQ1_M"),
    entry<BlockBF16, 2>("BF16"),        entry<BlockTQ1_0, 54>("TQ1_0"),    entry<BlockTQ2_0, 66>("TQ2_0"),
    entry<BlockMXFP4, 17>("MXFP4"),     entry<BlockNVFP4, 36>("NVFP4"),
};

constexpr uint32_t id_limit = 41;

/// For each id the index of its entry + 1, or 0.
constexpr auto index_of_id = [] {
    std::array<uint8_t, id_limit> index = {};
    for (size_t i = 0; i < entries.size(); ++i)
        index[static_cast<uint32_t>(entries[i].type)] = static_cast<uint8_t>(i + 1);
    return index;
}();

constexpr auto types = [] {
    std::array<TensorType, entries.size()> list = {};
    for (size_t i = 0; i < entries.size(); ++i)
        list[i] = entries[i].type;
    return list;
}();

const Entry& entry_of(TensorType type) {
    return entries[index_of_id[static_cast<uint32_t>(type)] - 1u];
}

} // namespace

const TensorTypeInfo* tensor_type_info(uint32_t id) {
    return id < id_limit && index_of_id[id] ? &entries[index_of_id[id] - 1u].info : nullptr;
}

const TensorTypeInfo& info(TensorType type) {
    return entry_of(type).info;
}

std::span<const TensorType> all_tensor_types() {
    return types;
}

size_t row_bytes(TensorType type, size_t elements) {
    const TensorTypeInfo& layout = info(type);
    return elements / layout.block_elements * layout.block_bytes;
}

void decode(TensorType type, const std::byte* source, float* target, size_t elements) {
    entry_of(type).decode(source, target, elements);
}

} // namespace orrery::kernels
