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

kernels::KvCacheSpec cache_spec(const EngineConfig& config, const ModelConfig& model) {
    return {.layers = model.layers,
            .kv_heads = model.kv_heads,
            .key_length = model.key_length,
            .value_length = model.value_length,
            .block_size = config.block_size,
            .blocks = config.blocks,
            .type = config.kv_type};
}

EngineConfig plan_cache(const EngineConfig& asked, const Model& model) {
    EngineConfig config = asked;
    require(config.context >= 0, "context", config.context, "0 (the model's own) or larger");
    require(config.block_size >= 1 && config.block_size <= 1024, "block_size", config.block_size,
            "between 1 and 1024");
    require(config.blocks >= 0, "blocks", config.blocks, "0 (as many as fit) or larger");
    require(config.max_step_tokens >= 0, "max_step_tokens", config.max_step_tokens,
            "0 (what suits the device) or larger");
    require(config.max_sequences >= 1, "max_sequences", config.max_sequences, "at least 1");
    require(config.max_chunk >= 0, "max_chunk", config.max_chunk, "0 (the budget) or larger");
    if (config.context == 0)
        config.context = model.config.context_length;
    require(config.context >= 2, "context", config.context, "at least 2: a token to read and one to write");
    // A long prompt is then read at nearly full speed, and whoever writes beside it waits no longer than that
    // takes; and every answer that is being written gets its token in every step.
    if (config.max_step_tokens == 0)
        config.max_step_tokens = std::max(model.backend->device().efficient_rows, config.max_sequences);
    if (config.naive)
        config.prefix_cache = false;

    const size_t block_bytes =
        std::max<size_t>(model.backend->kv_block_bytes(cache_spec(config, model.config)), 1);
    const size_t context_blocks =
        (size_t(config.context) + size_t(config.block_size) - 1) / size_t(config.block_size);
    const size_t available = platform::memory_info().available_bytes;
    // Slots are numbered block · block_size + offset in 32 bits.
    const size_t most_blocks = size_t(std::numeric_limits<int32_t>::max()) / size_t(config.block_size);
    if (config.blocks == 0) {
        size_t blocks = config.cache_bytes / block_bytes;
        if (config.cache_bytes == 0)
            blocks = std::clamp(available / 4 / block_bytes, context_blocks,
                                context_blocks * size_t(config.max_sequences));
        if (blocks == 0)
            throw OutOfMemory("cache_bytes is " + std::to_string(config.cache_bytes) +
                              ": a single block of the key/value cache needs " + std::to_string(block_bytes) +
                              " bytes.");
        config.blocks = int(std::min(blocks, most_blocks));
    }
    require(size_t(config.blocks) <= most_blocks, "blocks", config.blocks,
            "less: its tokens pass 2,147,483,647");
    config.cache_bytes = size_t(config.blocks) * block_bytes;
    if (available > 0 && config.cache_bytes > available)
        throw OutOfMemory("The key/value cache does not fit: " + std::to_string(config.blocks) +
                          " blocks of " + std::to_string(config.block_size) + " tokens need " +
                          platform::mebibytes(config.cache_bytes) + ", " + platform::mebibytes(available) +
                          " are available.");
    return config;
}

} // namespace orrery
