#include "engine/cache/block_hash.h"

#include <bit>
#include <random>

namespace orrery {

namespace {

class SipHash {
public:
    explicit SipHash(const HashKey& key)
        // The constants spell "somepseudorandomlygeneratedbytes"; 0xee marks the 128-bit variant.
        : v0_(key[0] ^ 0x736f6d6570736575u),
          v1_(key[1] ^ 0x646f72616e646f6du ^ 0xee),
          v2_(key[0] ^ 0x6c7967656e657261u),
          v3_(key[1] ^ 0x7465646279746573u) {}

    void add(uint64_t word) {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
        words_ += 1;
    }

    /// `tail` holds the last `tail_bytes` < 8 bytes, least significant first.
    Hash128 finish(uint64_t tail = 0, unsigned tail_bytes = 0) {
        const uint64_t length = words_ * 8 + tail_bytes;
        add(tail | length << 56);
        Hash128 hash;
        v2_ ^= 0xee;
        hash.low = close();
        v1_ ^= 0xdd;
        hash.high = close();
        return hash;
    }

private:
    uint64_t close() {
        for (int i = 0; i < 4; ++i)
            round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

    void round() {
        v0_ += v1_;
        v2_ += v3_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v1_;
        v0_ += v3_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ = std::rotl(v2_, 32);
    }

    uint64_t v0_, v1_, v2_, v3_;
    uint64_t words_ = 0;
};

} // namespace

HashKey random_hash_key() {
    std::random_device source;
    const auto word = [&] { return uint64_t(source()) << 32 | source(); };
    return {word(), word()};
}

Hash128 siphash128(const HashKey& key, std::span<const std::byte> bytes) {
    SipHash hash(key);
    const auto word = [&](size_t begin, size_t count) {
        uint64_t value = 0;
        for (size_t i = 0; i < count; ++i)
            value |= std::to_integer<uint64_t>(bytes[begin + i]) << (8 * i);
        return value;
    };
    const size_t whole = bytes.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        hash.add(word(i, 8));
    const size_t left = bytes.size() - whole;
    return hash.finish(word(whole, left), unsigned(left));
}

Hash128 hash_root(const HashKey& key, uint64_t salt) {
    SipHash hash(key);
    hash.add(salt);
    return hash.finish();
}

Hash128 hash_block(const HashKey& key, const Hash128& parent, std::span<const TokenId> tokens) {
    SipHash hash(key);
    hash.add(parent.low);
    hash.add(parent.high);
    size_t i = 0;
    for (; i + 1 < tokens.size(); i += 2)
        hash.add(uint32_t(tokens[i]) | uint64_t(uint32_t(tokens[i + 1])) << 32);
    return i < tokens.size() ? hash.finish(uint32_t(tokens[i]), 4) : hash.finish();
}

} // namespace orrery
