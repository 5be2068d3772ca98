// The grids of ggml's IQ formats: a quant is the index of a point, a point the magnitudes of eight (IQ2,
// IQ1) or four (IQ3) weights. The tables are part of the format.
#pragma once

#include <array>
#include <cstdint>

namespace orrery::kernels {

extern const std::array<std::array<int8_t, 8>, 256> iq2_xxs_grid;
extern const std::array<std::array<int8_t, 8>, 512> iq2_xs_grid;
extern const std::array<std::array<int8_t, 8>, 1024> iq2_s_grid;
extern const std::array<std::array<int8_t, 4>, 256> iq3_xxs_grid;
extern const std::array<std::array<int8_t, 4>, 512> iq3_s_grid;
/// Shared by IQ1_S and IQ1_M. Digits −1, 0 and 1.
extern const std::array<std::array<int8_t, 8>, 2048> iq1_grid;

} // namespace orrery::kernels
