// A ForwardBatch that keeps its own arrays.
#pragma once

#include "kernels/reference/reference_backend.h"

namespace orrery::kernels {

struct ReferenceBackend::Batch {
    struct Layout {
        std::vector<int32_t> kv_slots, table_offsets, block_tables;

        /// Where the token at a position of a span is kept.
        int32_t slot_of(size_t span, int32_t position, int block_size) const {
            const int32_t entry = table_offsets[span] + position / block_size;
            return block_tables[static_cast<size_t>(entry)] * block_size + position % block_size;
        }
    };
    std::vector<int32_t> ids, positions;
    std::vector<Span> spans;
    std::vector<Layout> layouts;
    std::vector<int32_t> output_rows;
    std::vector<StateSnapshot> snapshots;
    int32_t largest_position = -1;

    size_t rows() const { return positions.size(); }
    /// Throws Error where the batch has no such layout.
    const Layout& layout(int index, const char* operation) const;
};

} // namespace orrery::kernels
