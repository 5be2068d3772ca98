// Linear operations: prologue, quantisation and product.
#include "kernels/cpu/program.h"

#include <algorithm>

namespace orrery::kernels::cpu {

namespace {

/// Up to this many elements, each thread works out a prologue for itself: that takes less time than it takes
/// two threads to meet once more.
constexpr int64_t elements_to_redo = 8192;

/// Activations of one block of rows stay in a core's L2 cache, beside the weights that pass through.
constexpr int64_t row_block_bytes = 768 << 10;

int64_t round_up(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

} // namespace

struct Program::LinearJob {
    LinearArguments arguments;
    uint64_t serial = 0;      ///< where each thread prepares the rows for itself, else 0
    size_t floats_offset = 0; ///< of the float rows in a thread's scratch, behind the quantised ones
    int64_t row_block = 0;
    int64_t tiles_per_item = 1;
    int64_t items_per_block = 1;
};

void Program::linear(const LinearArguments& a) {
    if (a.rows <= 0)
        return;
    if (a.groups > 1)
        return grouped_linear(a);
    const CpuWeight& weight = *a.weight;
    const bool prepares_floats = a.has_prologue() && weight.has_dense;
    const bool prepares = weight.has_packed || prepares_floats;
    const auto row_floats = static_cast<size_t>(weight.columns) * sizeof(float);
    const size_t block_bytes =
        weight.has_packed
            ? static_cast<size_t>(round_up(a.rows, row_group) * weight.columns / 32) * sizeof(ActivationBlock)
            : 0;

    LinearJob job;
    job.arguments = a;
    if (prepares && a.rows * weight.columns <= elements_to_redo) {
        job.serial = ++serial_;
        job.floats_offset = align_up(block_bytes, cache_line);
        grow_scratch(job.floats_offset + row_floats * static_cast<size_t>(a.rows));
    } else if (prepares) {
        activations_.grow(block_bytes);
        if (prepares_floats)
            float_rows_.grow(row_floats * static_cast<size_t>(a.rows));
        grow_scratch(row_floats);
        const int64_t groups = round_up(a.rows, row_group) / row_group;
        record(&KernelProfile::norm_ns, groups, fair_chunk(groups),
               [this, a, prepares_floats](int64_t first, int64_t last, int thread) {
                   prepare_rows(a, first * row_group, std::min(last * row_group, a.rows),
                                activations_.as<ActivationBlock>(),
                                prepares_floats ? float_rows_.as<float>() : nullptr, scratch<float>(thread));
               });
    }

    const int64_t row_bytes = weight.has_dense
                                  ? weight.columns * 4
                                  : weight.columns / 32 * static_cast<int64_t>(sizeof(ActivationBlock));
    job.row_block = std::max<int64_t>(row_group, row_block_bytes / row_bytes / row_group * row_group);
    const int64_t row_blocks = (a.rows + job.row_block - 1) / job.row_block;
    const int64_t threads = pool_.threads();
    job.tiles_per_item = std::clamp<int64_t>(weight.tiles * row_blocks / (threads * 8), 1, 16);
    job.items_per_block = (weight.tiles + job.tiles_per_item - 1) / job.tiles_per_item;
    record(&KernelProfile::matmul_ns, row_blocks * job.items_per_block, 1,
           [this, job](int64_t first, int64_t last, int thread) { run_linear(job, first, last, thread); });
}

void Program::prepare_row(const LinearArguments& a, const float* x, int64_t slot, ActivationBlock* blocks,
                          float* floats, float* row) const {
    const int64_t columns = a.weight->columns;
    float* target = floats != nullptr ? floats : row;
    if (a.norm.kind != NormKind::none)
        kernels_.norm(a.norm, x, target, columns);
    else if (a.has_prologue())
        kernels_.activate(a.activation, x, a.activation.gated ? x + columns : nullptr, target, columns);
    if (a.weight->has_packed)
        kernels_.quantise(a.has_prologue() ? target : x,
                          blocks + slot / row_group * row_group * (columns / 32) + slot % row_group, columns);
}

void Program::prepare_rows(const LinearArguments& a, int64_t first, int64_t last, ActivationBlock* blocks,
                           float* floats, float* row) const {
    for (int64_t r = first; r < last; ++r)
        prepare_row(a, a.x.row(r), r, blocks, floats != nullptr ? floats + r * a.weight->columns : nullptr,
                    row);
}

void Program::run_linear(const LinearJob& job, int64_t first, int64_t last, int thread) {
    const LinearArguments& a = job.arguments;
    const CpuWeight& weight = *a.weight;
    const int64_t columns = weight.columns;
    const ActivationBlock* blocks = activations_.as<ActivationBlock>();
    const float* floats = float_rows_.as<float>();
    int64_t floats_stride = columns;
    if (job.serial != 0) {
        Thread& own = threads_[static_cast<size_t>(thread)];
        auto* own_blocks = own.scratch.as<ActivationBlock>();
        auto* own_floats = own.scratch.as<float>(job.floats_offset);
        if (own.prepared != job.serial) {
            prepare_rows(a, 0, a.rows, own_blocks, own_floats, own_floats);
            own.prepared = job.serial;
        }
        blocks = own_blocks;
        floats = own_floats;
    }
    if (!a.has_prologue()) {
        floats = a.x.data;
        floats_stride = a.x.stride;
    }

    for (int64_t item = first; item < last; ++item) {
        const int64_t first_row = item / job.items_per_block * job.row_block;
        const int64_t rows = std::min(job.row_block, a.rows - first_row);
        const int64_t first_tile = item % job.items_per_block * job.tiles_per_item;
        const int64_t last_tile = std::min(first_tile + job.tiles_per_item, weight.tiles);
        for (const WeightSlice& slice : weight.slices) {
            const int64_t from = std::max(first_tile - slice.first_tile, int64_t{0});
            const int64_t to = std::min(last_tile - slice.first_tile, slice.tiles());
            if (from >= to)
                continue;
            Output output;
            output.out = a.out.row(first_row) + slice.first_row;
            output.stride = a.out.stride;
            output.bias = a.bias != nullptr ? a.bias + slice.first_row : nullptr;
            output.scale = a.scale;
            output.accumulate = a.accumulate;
            if (slice.is_packed)
                kernels_.packed[static_cast<size_t>(slice.packed.format)](
                    slice.packed, from, to, blocks + first_row * (columns / 32), rows, output);
            else
                kernels_.dense(slice.part.type, slice.part.bytes, static_cast<int64_t>(slice.row_stride),
                               columns, from * tile_rows, std::min(to * tile_rows, slice.part.rows),
                               floats + first_row * floats_stride, floats_stride, rows, output);
        }
    }
}

void Program::multiply(const Product& p) const {
    const int64_t columns = p.weight->columns;
    for (const WeightSlice& slice : p.weight->slices) {
        const int64_t from = std::max(p.first_row - slice.first_row, int64_t{0});
        const int64_t to = std::min(p.last_row - slice.first_row, slice.part.rows);
        if (from >= to)
            continue;
        // Of the slice's first row, which may lie before the first one that is wanted.
        Output output = p.output;
        output.out += slice.first_row - p.first_row;
        if (output.bias != nullptr)
            output.bias += slice.first_row - p.first_row;
        if (!slice.is_packed) {
            kernels_.dense(slice.part.type, slice.part.bytes, static_cast<int64_t>(slice.row_stride), columns,
                           from, to, p.floats, p.floats_stride, p.rows, output);
            continue;
        }
        const auto packed = kernels_.packed[static_cast<size_t>(slice.packed.format)];
        // A tile of which some rows belong to others goes by way of a small table.
        const auto some_of_tile = [&](int64_t tile, int64_t begin, int64_t end) {
            for (int64_t row = 0; row < p.rows; row += row_group) {
                float sums[row_group * tile_rows];
                const int64_t rows = std::min<int64_t>(row_group, p.rows - row);
                Output table;
                table.out = sums - tile * tile_rows;
                table.stride = tile_rows;
                packed(slice.packed, tile, tile + 1, p.blocks + row * (columns / 32), rows, table);
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t i = begin; i < end; ++i) {
                        float value = sums[r * tile_rows + i - tile * tile_rows];
                        if (output.bias != nullptr)
                            value += output.bias[i];
                        if (output.scale != 1.0f)
                            value *= output.scale;
                        float& out = output.out[(row + r) * output.stride + i];
                        out = output.accumulate ? out + value : value;
                    }
            }
        };
        for (int64_t row = from; row < to;) {
            const int64_t tile = row / tile_rows;
            const int64_t end_tile = to == slice.part.rows ? slice.tiles() : to / tile_rows;
            if (row == tile * tile_rows && tile < end_tile) {
                packed(slice.packed, tile, end_tile, p.blocks, p.rows, output);
                row = end_tile * tile_rows;
            } else {
                const int64_t end = std::min((tile + 1) * tile_rows, to);
                some_of_tile(tile, row, end);
                row = end;
            }
        }
    }
}

/// Rows that meet the same matrix lie side by side: row i of group g is prepared as row g · padded + i.
void Program::grouped_linear(const LinearArguments& a) {
    const CpuWeight& weight = *a.weight;
    const int64_t columns = weight.columns;
    const int64_t rows = a.rows / a.groups;
    const int64_t padded = round_up(rows, row_group);
    const int64_t height = weight.rows / a.groups;
    const bool prepares_floats = a.has_prologue() && weight.has_dense;
    if (weight.has_packed || prepares_floats) {
        if (weight.has_packed)
            activations_.grow(static_cast<size_t>(a.groups * padded * (columns / 32)) *
                              sizeof(ActivationBlock));
        if (prepares_floats)
            float_rows_.grow(static_cast<size_t>(a.groups * padded * columns) * sizeof(float));
        grow_scratch(static_cast<size_t>(columns) * sizeof(float));
        record(&KernelProfile::norm_ns, a.rows, fair_chunk(a.rows),
               [this, a, padded, columns, prepares_floats](int64_t first, int64_t last, int thread) {
                   for (int64_t r = first; r < last; ++r) {
                       const int64_t slot = r % a.groups * padded + r / a.groups;
                       prepare_row(a, a.x.row(r), slot, activations_.as<ActivationBlock>(),
                                   prepares_floats ? float_rows_.as<float>() + slot * columns : nullptr,
                                   scratch<float>(thread));
                   }
               });
    }
    // Enough items for all threads where there are few groups.
    const int64_t pieces =
        std::clamp<int64_t>(int64_t{pool_.threads()} * 8 / a.groups, 1, (height + tile_rows - 1) / tile_rows);
    const int64_t piece = round_up((height + pieces - 1) / pieces, tile_rows);
    record(&KernelProfile::matmul_ns, a.groups * pieces, 1,
           [this, a, rows, padded, height, piece, pieces](int64_t first, int64_t last, int) {
               const int64_t width = a.weight->columns;
               for (int64_t item = first; item < last; ++item) {
                   const int64_t group = item / pieces;
                   const int64_t begin = item % pieces * piece;
                   Product p;
                   p.weight = a.weight;
                   p.first_row = group * height + begin;
                   p.last_row = group * height + std::min(begin + piece, height);
                   p.rows = rows;
                   p.blocks = activations_.as<ActivationBlock>() + group * padded * (width / 32);
                   p.floats =
                       a.has_prologue() ? float_rows_.as<float>() + group * padded * width : a.x.row(group);
                   p.floats_stride = a.has_prologue() ? width : a.x.stride * a.groups;
                   p.output.out = a.out.row(group) + begin;
                   p.output.stride = a.out.stride * a.groups;
                   p.output.bias = a.bias != nullptr ? a.bias + p.first_row : nullptr;
                   p.output.scale = a.scale;
                   p.output.accumulate = a.accumulate;
                   if (p.first_row < p.last_row)
                       multiply(p);
               }
           });
}

} // namespace orrery::kernels::cpu
