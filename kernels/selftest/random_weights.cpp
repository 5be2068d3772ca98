#include "kernels/selftest/random_weights.h"

#include "kernels/quant/block_layouts.h"
#include "kernels/quant/half.h"

#include <cstring>

namespace orrery::kernels::selftest {

namespace {

float uniform(float low, float high, std::mt19937& random) {
    return std::uniform_real_distribution(low, high)(random);
}

uint16_t random_scale(std::mt19937& random) {
    return f32_to_f16(uniform(0.005f, 0.02f, random));
}

// The generic block has a binary16 scale `d`, and perhaps an offset.
template <typename Block>
void tame(Block& block, std::mt19937& random) {
    block.d = random_scale(random);
    if constexpr (requires { block.dmin; })
        block.dmin = random_scale(random);
    if constexpr (requires { block.m; })
        block.m = f32_to_f16(uniform(-0.1f, 0.05f, random));
}

void tame(BlockF32& block, std::mt19937& random) {
    block.value = uniform(-0.1f, 0.1f, random);
}

void tame(BlockF16& block, std::mt19937& random) {
    block.bits = f32_to_f16(uniform(-0.1f, 0.1f, random));
}

void tame(BlockBF16& block, std::mt19937& random) {
    block.bits = f32_to_bf16(uniform(-0.1f, 0.1f, random));
}

void tame(BlockMXFP4& block, std::mt19937& random) {
    block.e = static_cast<uint8_t>(std::uniform_int_distribution(118, 122)(random)); // 2⁻⁹ … 2⁻⁵
}

void tame(BlockNVFP4& block, std::mt19937& random) {
    for (uint8_t& d : block.d) // 0x18 … 0x2f: 2⁻⁴ … 2⁻²; the last is a subnormal
        d = static_cast<uint8_t>(std::uniform_int_distribution(0x18, 0x2f)(random));
    block.d[3] = static_cast<uint8_t>(std::uniform_int_distribution(0, 7)(random));
}

void tame(BlockIQ1_M& block, std::mt19937& random) {
    const unsigned d = random_scale(random);
    for (unsigned i = 0; i < 4; ++i)
        block.scales[i] = static_cast<uint16_t>((block.scales[i] & 0xfffu) | ((d >> (4 * i)) & 15u) << 12);
}

template <typename Block>
void tame_all(std::vector<std::byte>& bytes, std::mt19937& random) {
    for (size_t offset = 0; offset < bytes.size(); offset += sizeof(Block)) {
        Block block;
        std::memcpy(&block, &bytes[offset], sizeof block);
        tame(block, random);
        std::memcpy(&bytes[offset], &block, sizeof block);
    }
}

void tame_all(TensorType type, std::vector<std::byte>& bytes, std::mt19937& random) {
    switch (type) {
#define ORRERY_FORMAT(name)                                                                                  \
    case TensorType::name:                                                                                   \
        return tame_all<Block##name>(bytes, random);
        ORRERY_FORMAT(F32)
        ORRERY_FORMAT(F16)
        ORRERY_FORMAT(Q4_0)
        ORRERY_FORMAT(Q4_1)
        ORRERY_FORMAT(Q5_0)
        ORRERY_FORMAT(Q5_1)
        ORRERY_FORMAT(Q8_0)
        ORRERY_FORMAT(Q2_K)
        ORRERY_FORMAT(Q3_K)
        ORRERY_FORMAT(Q4_K)
        ORRERY_FORMAT(Q5_K)
        ORRERY_FORMAT(Q6_K)
        ORRERY_FORMAT(IQ2_XXS)
        ORRERY_FORMAT(IQ2_XS)
        ORRERY_FORMAT(IQ3_XXS)
        ORRERY_FORMAT(IQ1_S)
        ORRERY_FORMAT(IQ4_NL)
        ORRERY_FORMAT(IQ3_S)
        ORRERY_FORMAT(IQ2_S)
        ORRERY_FORMAT(IQ4_XS)
        ORRERY_FORMAT(IQ1_M)
        ORRERY_FORMAT(BF16)
        ORRERY_FORMAT(TQ1_0)
        ORRERY_FORMAT(TQ2_0)
        ORRERY_FORMAT(MXFP4)
        ORRERY_FORMAT(NVFP4)
#undef ORRERY_FORMAT
    }
}

} // namespace

std::vector<std::byte> random_weights(TensorType type, int64_t rows, int64_t columns, std::mt19937& random) {
    std::vector<std::byte> bytes(static_cast<size_t>(rows) * row_bytes(type, static_cast<size_t>(columns)));
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random());
    tame_all(type, bytes, random);
    return bytes;
}

} // namespace orrery::kernels::selftest
