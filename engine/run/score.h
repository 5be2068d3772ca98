// The logits of a whole text, without an answer to it.
#pragma once

#include "engine/cache/block_store.h"
#include "engine/run/model_runner.h"

#include <vector>

namespace orrery {

/// Logits of every position of `ids`, [ids, vocab], at most `max_rows` rows in a pass. Takes unused blocks
/// and gives them back; no report tells of them. Throws Error where there are too few, OutOfMemory where the
/// logits do not fit.
std::vector<float> score(const std::vector<TokenId>& ids, int vocab, int max_rows, ModelRunner& runner,
                         BlockStore& store, HostSwap& swap);

} // namespace orrery
