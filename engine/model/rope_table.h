// The rotations of rotary position embedding (Su et al. 2021), as a table on a device.
#pragma once

#include "engine/model/config.h"
#include "kernels/backend.h"

#include <span>
#include <vector>

namespace orrery {

/// Radians per position of each pair, [dimensions / 2]: base^(−2i/dimensions), divided by the factors of
/// linear and Llama 3's scaling. Computed in float32 step by step as Hugging Face does: the weights were
/// trained with these roundings.
std::vector<float> rope_frequencies(const RopeConfig& rope);

/// Fills `rows`, [positions, frequencies, 2], with cosine and sine of the positions from `first_position` on.
/// Angles are in double precision, since float32 loses three digits of them at position 8,000.
void rope_rows(std::span<const float> frequencies, int first_position, std::span<float> rows);

/// Cosine and sine of each position and pair, [positions, dimensions / 2, 2], float32. The table has the
/// positions that have been used, rounded up to a power of two: a model trained for millions of them costs no
/// more than one for thousands.
class RopeTable {
public:
    /// The back end has to outlive the object.
    RopeTable(const RopeConfig& rope, kernels::Backend& backend);
    ~RopeTable();
    RopeTable(const RopeTable&) = delete;
    RopeTable& operator=(const RopeTable&) = delete;

    /// Makes the table reach to positions below `positions`, and never past `limit`. Throws OutOfMemory; then
    /// it is as long as before.
    void cover(int positions, int limit);

    int positions() const { return positions_; }
    kernels::Buffer buffer() const { return buffer_; }

private:
    void fill(kernels::Buffer buffer, int positions);

    std::vector<float> frequencies_;
    kernels::Backend& backend_;
    int positions_ = 0;
    kernels::Buffer buffer_;
};

} // namespace orrery
