#include "engine/model/rope_table.h"

#include "engine/platform/host_array.h"

#include <cmath>

namespace orrery {

std::vector<float> rope_frequencies(const RopeConfig& rope) {
    std::vector<float> frequencies(static_cast<size_t>(rope.dimensions / 2));
    const auto base = static_cast<float>(rope.base);
    const auto linear_factor = static_cast<float>(rope.linear_factor);
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dimensions);
        const auto power =
            static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
        frequencies[i] = 1.0f / power / linear_factor;
        if (!rope.frequency_factors.empty())
            frequencies[i] /= rope.frequency_factors[i];
    }
    return frequencies;
}

std::vector<float> rope_table(const RopeConfig& rope, int positions) {
    const std::vector<float> frequencies = rope_frequencies(rope);
    std::vector<float> table = platform::host_array<float>(
        static_cast<size_t>(positions) * frequencies.size() * 2, "the table of rotations");
    auto next = table.begin();
    for (int position = 0; position < positions; ++position)
        for (const float frequency : frequencies) {
            const double angle = static_cast<double>(position) * static_cast<double>(frequency);
            *next++ = static_cast<float>(std::cos(angle));
            *next++ = static_cast<float>(std::sin(angle));
        }
    return table;
}

} // namespace orrery
