// How large the key/value cache is to be, and how large a step.
#pragma once

#include "engine/config.h"
#include "engine/model/model.h"

#include <vector>

namespace orrery {

/// The configuration with every 0 replaced by the number in force. The blocks are those that were asked for,
/// or as many as fit `cache_bytes`, or a quarter of the memory that is available now: at least one full
/// context, at most `max_sequences` of them. A context of 0 is the one that the model was trained for or,
/// where its blocks do not fit, the longest that fits. A step's budget is what suits the device. Throws Error
/// where a value makes no sense, OutOfMemory where the cache does not fit the memory that is available.
EngineConfig plan_cache(const EngineConfig& config, const Model& model);

/// The caches that a configuration asks for, one for each of ModelConfig::caches. Their blocks are given out
/// together.
std::vector<kernels::KvCacheSpec> cache_specs(const EngineConfig& config, const ModelConfig& model);

} // namespace orrery
