// The logits of a whole text, without an answer to it.
#pragma once

#include "engine/cache/block_store.h"
#include "engine/run/model_runner.h"

#include <vector>

namespace orrery {

/// Logits of every position of `ids`, [ids, vocab], with `most_rows` rows in a pass at the most. The blocks
/// that it needs are those that nobody has, and are given back; no report tells of them. Throws Error where
/// there are too few, OutOfMemory where the logits do not fit.
std::vector<float> score(const std::vector<TokenId>& ids, int vocab, int most_rows, ModelRunner& runner,
                         BlockStore& store, HostSwap& swap);

} // namespace orrery
