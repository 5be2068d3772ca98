// A llama model in the plainest way there is: double precision, one sequence, everything computed anew,
// straight from the paper and the tensors of a file. It shares nothing with the decoder and its back ends
// but the reading of the file, so tests can hold them against it where no stored values exist.
#pragma once

#include "engine/model/config.h"
#include "engine/model/gguf.h"

#include <cstdint>
#include <vector>

namespace orrery::test {

/// Logits of every position, [ids, vocab].
std::vector<double> naive_llama(const GgufFile& file, const ModelConfig& config,
                                const std::vector<int32_t>& ids);

} // namespace orrery::test
