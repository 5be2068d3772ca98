#include "engine/run/cache_plan.h"

#include "engine/platform/system.h"
#include "kernels/error.h"

#include <algorithm>
#include <limits>
#include <string>

namespace orrery {

namespace {

void require(bool holds, const char* name, long long value, const char* rule) {
    if (!holds)
        throw Error(std::string(name) + " is " + std::to_string(value) + ": it must be " + rule + '.');
}

} // namespace

std::vector<kernels::KvCacheSpec> cache_specs(const EngineConfig& config, const ModelConfig& model) {
    std::vector<kernels::KvCacheSpec> specs;
    for (const CacheShape& cache : model.caches)
        specs.push_back({.layers = cache.layers,
                         .kv_heads = cache.kv_heads,
                         .key_length = cache.key_length,
                         .value_length = cache.value_length,
                         .block_size = config.block_size,
                         .blocks = config.blocks,
                         .type = config.kv_type});
    return specs;
}

namespace {

void check_values(const EngineConfig& config) {
    require(config.context >= 0, "context", config.context, "0 (the model's own) or larger");
    require(config.context != 1, "context", config.context, "at least 2: a token to read and one to write");
    require(config.block_size >= 1 && config.block_size <= 1024, "block_size", config.block_size,
            "between 1 and 1024");
    require(config.blocks >= 0, "blocks", config.blocks, "0 (as many as fit) or larger");
    require(config.max_step_tokens >= 0, "max_step_tokens", config.max_step_tokens,
            "0 (what suits the device) or larger");
    require(config.max_sequences >= 1, "max_sequences", config.max_sequences, "at least 1");
    require(config.max_chunk >= 0, "max_chunk", config.max_chunk, "0 (the budget) or larger");
}

size_t blocks_for(size_t tokens, int block_size) {
    return (tokens + size_t(block_size) - 1) / size_t(block_size);
}

/// What is left to the rest of the program where the cache takes all that it can.
size_t without_reserve(size_t available) {
    return available - available / 8;
}

} // namespace

EngineConfig plan_cache(const EngineConfig& asked, const Model& model) {
    check_values(asked);
    EngineConfig config = asked;
    const bool own_context = config.context == 0;
    if (own_context)
        config.context = std::max(model.config.context_length, 2);
    if (model.config.max_positions > 0)
        require(config.context <= model.config.max_positions, "context", config.context,
                ("at most " + std::to_string(model.config.max_positions) +
                 ": the model has learned embeddings of so many positions")
                    .c_str());
    // A long prompt is then read at nearly full speed, and answers that are written beside it wait no longer
    // than that takes; and each of them gets its token in every step.
    if (config.max_step_tokens == 0)
        config.max_step_tokens = std::max(model.backend->device().efficient_rows, config.max_sequences);
    if (config.naive)
        config.prefix_cache = false;

    size_t block_bytes = 0;
    for (const kernels::KvCacheSpec& spec : cache_specs(config, model.config))
        block_bytes += model.backend->kv_block_bytes(spec);
    const size_t available = platform::memory_info().available_bytes; // 0: not known
    // Slots are numbered block · block_size + offset in 32 bits.
    const size_t max_blocks = size_t(std::numeric_limits<int32_t>::max()) / size_t(config.block_size);
    if (config.blocks == 0) {
        const size_t context_blocks = blocks_for(size_t(config.context), config.block_size);
        size_t blocks = config.cache_bytes / block_bytes;
        if (config.cache_bytes == 0) {
            const bool context_fits = available == 0 || context_blocks <= available / block_bytes;
            const size_t min_blocks = context_fits || !own_context
                                          ? context_blocks
                                          : std::max<size_t>(without_reserve(available) / block_bytes, 1);
            blocks = std::clamp(available / 4 / block_bytes, min_blocks,
                                std::max(min_blocks, context_blocks * size_t(config.max_sequences)));
        }
        if (blocks == 0)
            throw OutOfMemory("cache_bytes is " + std::to_string(config.cache_bytes) +
                              ": a single block of the key/value cache needs " + std::to_string(block_bytes) +
                              " bytes.");
        config.blocks = int(std::min(blocks, max_blocks));
    }
    require(size_t(config.blocks) <= max_blocks, "blocks", config.blocks,
            "less: its tokens pass 2,147,483,647");
    // A context that was not asked for is as long as fits.
    if (own_context)
        config.context =
            int(std::min<size_t>(size_t(config.context), size_t(config.blocks) * size_t(config.block_size)));
    config.cache_bytes = size_t(config.blocks) * block_bytes;
    if (available > 0 && config.cache_bytes > available)
        throw OutOfMemory(
            "The key/value cache does not fit: " + std::to_string(config.blocks) + " blocks of " +
            std::to_string(config.block_size) + " tokens need " + platform::mebibytes(config.cache_bytes) +
            ", " + platform::mebibytes(available) + " are available. A context of " +
            std::to_string(without_reserve(available) / block_bytes * size_t(config.block_size)) +
            " tokens would fit.");
    return config;
}

} // namespace orrery
