// How the keys and values of a cache are kept; kernels/quant/kv_row.h says what their bytes mean.
#pragma once

#include <cstdint>

namespace orrery::kernels {

enum class KvType : uint8_t { f32, f16, int8, int4 };

} // namespace orrery::kernels
