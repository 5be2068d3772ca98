#include "tests/support/forward.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace orrery::test {

Forward::Forward(Decoder& decoder, kernels::Backend& backend, int max_positions, kernels::KvType kv_type,
                 int block_size, int max_rows)
    : decoder_(decoder), backend_(backend), max_positions_(max_positions), block_size_(block_size) {
    const ModelConfig& config = decoder.config();
    const int blocks = (max_positions + block_size - 1) / block_size;
    const int rows = max_rows > 0 ? max_rows : max_positions;
    decoder.reserve(rows, rows, max_positions);
    for (const CacheShape& cache : config.caches)
        caches_.push_back(backend.create_kv_cache({.layers = cache.layers,
                                                   .kv_heads = cache.kv_heads,
                                                   .key_length = cache.key_length,
                                                   .value_length = cache.value_length,
                                                   .block_size = block_size,
                                                   .blocks = 2 * blocks + 1,
                                                   .type = kv_type}));
    // Neighbours in the sequence are not neighbours in the cache: every other block, last ones first.
    for (int i = 0; i < blocks; ++i)
        table_.push_back(2 * (blocks - i) - 1);
}

Forward::~Forward() {
    for (const kernels::KvCache cache : caches_)
        backend_.release(cache);
}

std::vector<float> Forward::run(const std::vector<int32_t>& ids, Outputs outputs) {
    const auto rows = static_cast<int32_t>(ids.size());
    if (rows == 0 || length_ + rows > max_positions_)
        throw std::runtime_error("a test's sequence does not fit its cache");
    std::vector<int32_t> positions(ids.size()), kv_slots(ids.size()), output_rows;
    std::iota(positions.begin(), positions.end(), length_);
    for (size_t i = 0; i < ids.size(); ++i)
        kv_slots[i] = table_[static_cast<size_t>(positions[i] / block_size_)] * block_size_ +
                      positions[i] % block_size_;
    if (outputs == Outputs::all)
        for (int32_t i = 0; i < rows; ++i)
            output_rows.push_back(i);
    else
        output_rows.push_back(rows - 1);
    const std::vector<kernels::Span> spans = {{.first_row = 0, .rows = rows, .first_position = length_}};
    const std::vector<int32_t> table_offsets = {0};
    const std::vector<kernels::BlockLayout> layouts = {
        {.kv_slots = kv_slots, .table_offsets = table_offsets, .block_tables = table_}};
    decoder_.forward({.ids = ids,
                      .positions = positions,
                      .spans = spans,
                      .layouts = layouts,
                      .output_rows = output_rows,
                      .snapshots = {}},
                     caches_);
    length_ += rows;
    std::vector<float> logits(output_rows.size() * static_cast<size_t>(decoder_.config().vocab));
    decoder_.read_logits(0, logits);
    return logits;
}

int32_t most_likely(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

} // namespace orrery::test
