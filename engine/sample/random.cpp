#include "engine/sample/random.h"

#include <random>

namespace orrery {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t(0xD2511F53) * counter[0];
        const uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
        counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
                   uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
        key[0] += 0x9E3779B9; // the golden ratio's fraction
        key[1] += 0xBB67AE85; // the square root of 3's
    }
    return counter;
}

double uniform(uint64_t seed, uint32_t sample, uint32_t position, uint32_t draw) {
    const auto words = philox4x32({position, draw, sample, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
    const uint64_t bits = (uint64_t(words[0]) << 32 | words[1]) >> 11;
    return double(bits) * 0x1p-53;
}

uint64_t fresh_seed() {
    std::random_device device;
    return (uint64_t(device()) << 32 | device()) >> 11;
}

} // namespace orrery
