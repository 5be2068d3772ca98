// Weights in the layout that the integer kernels read.
//
// Every block format of GGUF is, exactly, w = scale · q − or + a minimum, with small integers q, for each
// group of 16 or 32 weights along a row. The formats are therefore reduced at load to a few classes: codes
// of 4 or 8 bits, groups of 16 or 32, scales as the file has them. Nothing is rounded: a packed weight
// stands for the same number as the file's.
//
// Rows come in tiles of 16, the lanes of a vector of 32-bit sums. Within a tile, for each 32 columns:
//
//   8-bit codes: 8 × 64 bytes; line j holds, for each of the 16 rows, the columns 4j … 4j+3;
//   4-bit codes: 4 × 64 bytes; line j holds columns 4j … 4j+3 in its low and 16+4j … 16+4j+3 in its high
//                nibbles (ggml's own order within 16 bytes, so that most formats are copied word by word);
//
// then, for the whole tile, the scales of all groups (16 rows side by side), then the minima, then the
// super-scales. Missing rows of the last tile are zero.
#pragma once

#include "kernels/cpu/memory.h"
#include "kernels/quant/tensor_type.h"

#include <cstdint>

namespace orrery::kernels::cpu {

/// What a code stands for, before the scale.
enum class CodeClass : uint8_t {
    nibble_offset8, ///< 4 bits, q = code − 8
    nibble_minimum, ///< 4 bits, q = code, and a minimum per group
    nibble_table,   ///< 4 bits, q = table[code]
    byte_offset128, ///< 8 bits, q = code − 128
    byte_minimum,   ///< 8 bits, q = code, and a minimum per group
};

/// How the scale (and minimum) of a group is kept.
enum class ScaleClass : uint8_t {
    half,      ///< float16
    bfloat,    ///< bfloat16: powers of two beyond float16's range
    two_level, ///< int8 · float32 of the 256 columns (minimum: uint8 · float32)
};

/// The combinations that formats need. The order is that of the kernel table.
enum class PackedFormat : uint8_t {
    q4_0,    ///< nibble_offset8, 32, half
    q4_1,    ///< nibble_minimum, 32, half
    iq4_nl,  ///< nibble_table, 32, half
    iq4_xs,  ///< nibble_table, 32, two_level
    mxfp4,   ///< nibble_table, 32, bfloat
    nvfp4,   ///< nibble_table, 16, half
    q4_k,    ///< nibble_minimum, 32, two_level
    q2_k,    ///< nibble_minimum, 16, two_level
    q3_k,    ///< nibble_offset8, 16, two_level
    ternary, ///< nibble_offset8, 32, two_level
    q8_0,    ///< byte_offset128, 32, half (and Q5_0)
    q5_1,    ///< byte_minimum, 32, half
    q5_k,    ///< byte_minimum, 32, two_level
    q6_k,    ///< byte_offset128, 16, two_level (and IQ1_M, IQ2_XS, IQ2_S)
    iq_32,   ///< byte_offset128, 32, two_level (IQ1_S, IQ2_XXS, IQ3_XXS, IQ3_S)
};
inline constexpr int packed_format_count = 15;

struct FormatTraits {
    CodeClass code;
    int group; ///< columns per scale
    ScaleClass scale;
};

inline constexpr FormatTraits format_traits[packed_format_count] = {
    {CodeClass::nibble_offset8, 32, ScaleClass::half},
    {CodeClass::nibble_minimum, 32, ScaleClass::half},
    {CodeClass::nibble_table, 32, ScaleClass::half},
    {CodeClass::nibble_table, 32, ScaleClass::two_level},
    {CodeClass::nibble_table, 32, ScaleClass::bfloat},
    {CodeClass::nibble_table, 16, ScaleClass::half},
    {CodeClass::nibble_minimum, 32, ScaleClass::two_level},
    {CodeClass::nibble_minimum, 16, ScaleClass::two_level},
    {CodeClass::nibble_offset8, 16, ScaleClass::two_level},
    {CodeClass::nibble_offset8, 32, ScaleClass::two_level},
    {CodeClass::byte_offset128, 32, ScaleClass::half},
    {CodeClass::byte_minimum, 32, ScaleClass::half},
    {CodeClass::byte_minimum, 32, ScaleClass::two_level},
    {CodeClass::byte_offset128, 16, ScaleClass::two_level},
    {CodeClass::byte_offset128, 32, ScaleClass::two_level},
};

constexpr bool is_nibble(CodeClass code) {
    return code <= CodeClass::nibble_table;
}
constexpr bool has_minimum(CodeClass code) {
    return code == CodeClass::nibble_minimum || code == CodeClass::byte_minimum;
}

inline constexpr int tile_rows = 16;

/// Where the parts of a tile lie, in bytes from its start. All are multiples of a cache line.
struct TileLayout {
    int64_t scales = 0;
    int64_t minima = 0;
    int64_t supers = 0;         ///< float32 [columns / 256, 16]
    int64_t minimum_supers = 0; ///< float32 [columns / 256, 16], to be added: the sign is included
    int64_t bytes = 0;
};

constexpr TileLayout tile_layout(const FormatTraits& traits, int64_t columns) {
    TileLayout layout;
    const auto line = [](int64_t bytes) {
        return static_cast<int64_t>(align_up(static_cast<size_t>(bytes), cache_line));
    };
    const int64_t scale_bytes =
        line(columns / traits.group * tile_rows * (traits.scale == ScaleClass::two_level ? 1 : 2));
    const int64_t super_bytes = traits.scale == ScaleClass::two_level ? columns / 256 * tile_rows * 4 : 0;
    const bool minima = has_minimum(traits.code);
    layout.scales = columns * tile_rows / (is_nibble(traits.code) ? 2 : 1);
    layout.minima = layout.scales + scale_bytes;
    layout.supers = layout.minima + (minima ? scale_bytes : 0);
    layout.minimum_supers = layout.supers + super_bytes;
    layout.bytes = layout.minimum_supers + (minima ? super_bytes : 0);
    return layout;
}

/// Some rows of a weight, all in one format.
struct PackedMatrix {
    PackedFormat format = PackedFormat::q4_0;
    int64_t rows = 0;
    int64_t columns = 0;
    TileLayout layout;
    /// nibble_table: the 16 values + 128, as bytes.
    uint8_t table[16] = {};
    Memory memory;

    int64_t tiles() const { return (rows + tile_rows - 1) / tile_rows; }
    size_t bytes() const { return static_cast<size_t>(tiles() * layout.bytes); }
    const uint8_t* tile(int64_t index) const {
        return reinterpret_cast<const uint8_t*>(memory.get()) + index * layout.bytes;
    }
};

/// True for the formats that are packed: all but F32, F16 and BF16, which are computed straight from the
/// file's bytes.
bool is_packed_type(TensorType type);

/// Bytes of [rows, columns] of `type` once they are packed. This and the next two throw Error for a type that
/// is not packed.
int64_t packed_bytes(TensorType type, int64_t rows, int64_t columns);

/// An empty matrix of the right layout for [rows, columns] of `type`; its memory is null where there is
/// not enough.
PackedMatrix make_packed(TensorType type, int64_t rows, int64_t columns);

/// Fills in the tiles [first_tile, last_tile) from the file's rows, which start at `rows_bytes` and lie
/// `row_stride_bytes` apart.
void pack_tiles(PackedMatrix& matrix, TensorType type, const std::byte* rows_bytes, size_t row_stride_bytes,
                int64_t first_tile, int64_t last_tile);

/// Decodes one row from the packed form: what the kernels take the row to be. For tests.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* target);

} // namespace orrery::kernels::cpu
