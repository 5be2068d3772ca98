// The batch, embeddings, products and what is done element by element.
#include "kernels/reference/batch.h"
#include "kernels/reference/checks.h"

#include <algorithm>

namespace orrery::kernels {

using reference::number;
using reference::require;
using reference::require_apart;
using reference::Rows;
using reference::same;

// The batch

void ReferenceBackend::begin(const ForwardBatch& batch) {
    const auto rows = static_cast<int32_t>(batch.positions.size());
    require(batch.ids.size() == batch.positions.size(),
            "A batch has " + std::to_string(batch.ids.size()) + " ids and " +
                std::to_string(batch.positions.size()) + " positions: they must be as many.");
    const auto copy = [](const auto& span) { return std::vector(span.begin(), span.end()); };
    auto own = std::make_shared<Batch>();
    own->ids = copy(batch.ids);
    own->positions = copy(batch.positions);
    own->spans = copy(batch.spans);
    own->output_rows = copy(batch.output_rows);
    own->snapshots = copy(batch.snapshots);
    for (const int32_t position : batch.positions) {
        require(position >= 0, "Position " + number(position) + " is negative.");
        own->largest_position = std::max(own->largest_position, position);
    }

    std::vector<bool> padding(batch.positions.size(), true);
    int32_t next_row = 0;
    for (const Span& span : batch.spans) {
        require(span.first_row >= next_row && span.rows > 0 && span.rows <= rows - span.first_row,
                "A span of " + number(span.rows) + " rows from row " + number(span.first_row) +
                    " overlaps another or the end of a batch of " + number(rows) + " rows.");
        next_row = span.first_row + span.rows;
        for (int32_t i = 0; i < span.rows; ++i) {
            const auto row = static_cast<size_t>(span.first_row + i);
            padding[row] = false;
            require(batch.positions[row] == span.first_position + i,
                    "The position of row " + number(span.first_row + i) + " is not its span's " +
                        number(span.first_position + i) + ".");
        }
    }
    for (const BlockLayout& layout : batch.layouts) {
        require(layout.kv_slots.size() == batch.positions.size() &&
                    layout.table_offsets.size() == batch.spans.size(),
                "A layout has " + std::to_string(layout.kv_slots.size()) + " slots for " + number(rows) +
                    " rows and " + std::to_string(layout.table_offsets.size()) + " block tables for " +
                    std::to_string(batch.spans.size()) + " spans.");
        for (size_t row = 0; row < padding.size(); ++row)
            require((layout.kv_slots[row] < 0) == padding[row],
                    "Row " + std::to_string(row) +
                        (padding[row] ? " is padding, but" : " is not padding, but") + " goes to slot " +
                        number(layout.kv_slots[row]) + ".");
        own->layouts.push_back(
            {copy(layout.kv_slots), copy(layout.table_offsets), copy(layout.block_tables)});
    }
    for (const int32_t row : batch.output_rows)
        require(row >= 0 && row < rows,
                "Output row " + number(row) + " is outside of a batch of " + number(rows) + " rows.");
    int32_t last_snapshot = -1;
    for (const StateSnapshot& snapshot : batch.snapshots) {
        require(snapshot.row >= last_snapshot && snapshot.row < rows &&
                    !padding[static_cast<size_t>(snapshot.row)],
                "A snapshot after row " + number(snapshot.row) +
                    " is out of order, or no span of the batch has that row.");
        last_snapshot = snapshot.row;
    }
    batch_ = std::move(own);
}

std::shared_ptr<const ReferenceBackend::Batch> ReferenceBackend::current_batch(const char* operation) const {
    require(batch_ != nullptr, std::string(operation) + " needs a batch: call begin() first.");
    return batch_;
}

const ReferenceBackend::Batch::Layout& ReferenceBackend::Batch::layout(int index,
                                                                       const char* operation) const {
    require(index >= 0 && static_cast<size_t>(index) < layouts.size(),
            std::string(operation) + " names layout " + number(index) + " of a batch that has " +
                std::to_string(layouts.size()) + ".");
    return layouts[static_cast<size_t>(index)];
}

void ReferenceBackend::embed(const EmbedOp& op) {
    const auto batch = current_batch("embed");
    const StackedWeight& table = weight_of(op.table);
    for (const int32_t id : batch->ids)
        require(id >= 0 && id < table.rows,
                "Token " + number(id) + " is outside of a vocabulary of " + number(table.rows) + ".");
    const StackedWeight* positions = op.positions ? &weight_of(op.positions) : nullptr;
    if (positions) {
        require(positions->columns == table.columns, "embed adds positions of " + number(positions->columns) +
                                                         " elements to tokens of " + number(table.columns) +
                                                         ".");
        for (const int32_t position : batch->positions)
            require(position + int64_t{op.position_offset} >= 0 &&
                        position + int64_t{op.position_offset} < positions->rows,
                    "Position " + number(position) + " + " + number(op.position_offset) +
                        " is outside of a table of " + number(positions->rows) + " positions.");
    }
    const Rows out = rows_to(op.out, static_cast<int64_t>(batch->rows()), table.columns, "embed's out");

    enqueue(&KernelProfile::other_ns, [=, &table, scale = op.scale, offset = op.position_offset] {
        std::vector<float> token(out.columns);
        std::vector<float> position(out.columns);
        for (size_t row = 0; row < out.rows; ++row) {
            table.decode_row(batch->ids[row], token.data());
            if (positions)
                positions->decode_row(batch->positions[row] + offset, position.data());
            out.put(row, false, [&](size_t i) {
                const double scaled = static_cast<double>(token[i]) * static_cast<double>(scale);
                return positions ? scaled + static_cast<double>(position[i]) : scaled;
            });
        }
    });
}

void ReferenceBackend::gather(const GatherOp& op) {
    const auto batch = current_batch("gather");
    const Rows x = rows_of(op.x, static_cast<int64_t>(batch->rows()), op.x.columns, "gather's x");
    const Rows out =
        rows_to(op.out, static_cast<int64_t>(batch->output_rows.size()), op.x.columns, "gather's out");
    require(op.x.buffer.id != op.out.buffer.id, "gather cannot write to the buffer that it reads.");

    enqueue(&KernelProfile::other_ns, [=] {
        for (size_t i = 0; i < out.rows; ++i)
            out.write(i, x.read(static_cast<size_t>(batch->output_rows[i])));
    });
}

// Norms, products, element by element

void ReferenceBackend::norm(const NormOp& op) {
    const int64_t rows = op.x.rows;
    const int64_t columns = op.x.columns;
    require(op.groups > 0 && columns % op.groups == 0,
            "norm cannot cut " + number(columns) + " columns into " + number(op.groups) + " equal groups.");
    const Rows x =
        op.add ? rows_to(op.x, rows, columns, "norm's x") : rows_of(op.x, rows, columns, "norm's x");
    const Rows out = rows_to(op.out, rows, columns, "norm's out");
    const Rows add = op.add ? rows_of(op.add, rows, columns, "norm's add") : Rows();
    const Rows gate = op.gate ? rows_of(op.gate, rows, columns, "norm's gate") : Rows();
    if (!same(op.out, op.x))
        require_apart(op.out, {op.x}, "norm");
    else
        require(!op.accumulate, "norm cannot add its result to the rows that it reads.");
    require_apart(op.out, {op.add, op.gate}, "norm");
    if (op.add)
        require_apart(op.x, {op.add, op.gate}, "norm");
    const auto width = static_cast<size_t>(columns / op.groups);
    const reference::NormValues values =
        values_of(op.norm, op.weight_shared ? columns / op.groups : columns, "norm");

    enqueue(&KernelProfile::norm_ns,
            [=, groups = static_cast<size_t>(op.groups), shared = op.weight_shared, add_scale = op.add_scale,
             scale = op.scale, accumulate = op.accumulate, order = op.gate_order] {
                const auto piece = [&](std::span<const float> weights, size_t group) {
                    return shared || weights.empty() ? weights : weights.subspan(group * width, width);
                };
                std::vector<float> row(x.columns), factor(x.columns), addend(x.columns);
                for (size_t r = 0; r < x.rows; ++r) {
                    if (add) {
                        add.read(r, addend);
                        x.put(r, true, [&](size_t i) {
                            return static_cast<double>(add_scale) * static_cast<double>(addend[i]);
                        });
                    }
                    x.read(r, row);
                    if (gate) {
                        gate.read(r, factor);
                        for (float& value : factor)
                            value = static_cast<float>(reference::activate(ActivationKind::silu, value));
                    }
                    if (gate && order == GateOrder::before)
                        for (size_t i = 0; i < row.size(); ++i)
                            row[i] *= factor[i];
                    for (size_t group = 0; group < groups; ++group) {
                        reference::NormValues part = values;
                        part.weight = piece(values.weight, group);
                        part.bias = piece(values.bias, group);
                        const std::span elements(&row[group * width], width);
                        reference::norm(elements, part, elements);
                    }
                    out.put(r, accumulate, [&](size_t i) {
                        double value = static_cast<double>(scale) * static_cast<double>(row[i]);
                        if (gate && order == GateOrder::after)
                            value *= static_cast<double>(factor[i]);
                        return value;
                    });
                }
            });
}

void ReferenceBackend::linear(const LinearOp& op) {
    const StackedWeight& weight = weight_of(op.weight);
    require(op.groups > 0 && weight.rows % op.groups == 0, "linear cannot cut a weight of " +
                                                               number(weight.rows) + " rows into " +
                                                               number(op.groups) + " equal groups.");
    require(op.norm.kind == NormKind::none ||
                (op.activation.kind == ActivationKind::none && !op.activation.gated),
            "linear can have a norm or an activation before its product, not both.");
    const int64_t height = weight.rows / op.groups;
    const Rows x =
        rows_of(op.x, op.x.rows, op.activation.gated ? 2 * weight.columns : weight.columns, "linear's x");
    const Rows out = rows_to(op.out, op.x.rows, height, "linear's out");
    require_apart(op.out, {op.x}, "linear");
    const std::span<const float> bias =
        optional_floats(op.bias, static_cast<size_t>(weight.rows), "linear's bias");
    const reference::NormValues norm = values_of(op.norm, weight.columns, "linear's norm");

    // The prologue and the product are two steps, with the prepared rows between them.
    const auto columns = static_cast<size_t>(weight.columns);
    const auto prepared = std::make_shared<std::vector<float>>();
    enqueue(op.norm.kind != NormKind::none ? &KernelProfile::norm_ns : &KernelProfile::other_ns,
            [=, activation = op.activation] {
                prepared->resize(x.rows * columns);
                std::vector<float> from(x.columns);
                for (size_t row = 0; row < x.rows; ++row) {
                    const std::span to(prepared->data() + row * columns, columns);
                    x.read(row, from);
                    if (norm.kind != NormKind::none)
                        reference::norm(from, norm, to);
                    else
                        reference::activate(from, activation, to);
                }
            });
    enqueue(&KernelProfile::matmul_ns, [=, &weight, groups = static_cast<size_t>(op.groups), scale = op.scale,
                                        accumulate = op.accumulate] {
        std::vector<float> weight_row(columns);
        std::vector<double> products(out.rows * out.columns);
        for (size_t i = 0; i < out.columns * groups; ++i) {
            weight.decode_row(static_cast<int64_t>(i), weight_row.data());
            for (size_t row = i / out.columns; row < out.rows; row += groups) {
                double sum = reference::dot({prepared->data() + row * columns, columns}, weight_row);
                if (!bias.empty())
                    sum += bias[i];
                products[row * out.columns + i % out.columns] = static_cast<double>(scale) * sum;
            }
        }
        for (size_t row = 0; row < out.rows; ++row)
            out.put(row, accumulate, [&](size_t i) { return products[row * out.columns + i]; });
    });
}

void ReferenceBackend::gate(const GateOp& op) {
    const int64_t rows = op.x.rows;
    const int64_t columns = op.x.columns;
    const Rows x = rows_of(op.x, rows, columns, "gate's x");
    const Rows gate = rows_of(op.gate, rows, op.gate.columns == 1 ? 1 : columns, "gate's gate");
    const Rows out = rows_to(op.out, rows, columns, "gate's out");
    require(!op.activation.gated, "gate's activation cannot be a gated one.");
    if (!same(op.out, op.x))
        require_apart(op.out, {op.x}, "gate");
    if (!same(op.out, op.gate) || gate.columns != x.columns)
        require_apart(op.out, {op.gate}, "gate");

    enqueue(&KernelProfile::other_ns, [=, activation = op.activation] {
        std::vector<float> row(x.columns), factor(gate.columns);
        for (size_t r = 0; r < x.rows; ++r) {
            x.read(r, row);
            gate.read(r, factor);
            out.put(r, false, [&](size_t i) {
                const double z = factor[factor.size() == 1 ? 0 : i];
                return reference::activate(activation.kind, z, activation.alpha) *
                       static_cast<double>(row[i]);
            });
        }
    });
}

void ReferenceBackend::add(const AddOp& op) {
    const Rows x = rows_of(op.x, op.x.rows, op.x.columns, "add's x");
    const Rows out = rows_to(op.out, op.x.rows, op.x.columns, "add's out");
    require_apart(op.out, {op.x}, "add");

    enqueue(&KernelProfile::other_ns, [=, scale = op.scale, accumulate = op.accumulate] {
        std::vector<float> row(x.columns);
        for (size_t r = 0; r < x.rows; ++r) {
            x.read(r, row);
            out.put(r, accumulate,
                    [&](size_t i) { return static_cast<double>(scale) * static_cast<double>(row[i]); });
        }
    });
}

void ReferenceBackend::soft_cap(const SoftCapOp& op) {
    const Rows x = rows_to(op.x, op.x.rows, op.x.columns, "soft_cap's x");
    enqueue(&KernelProfile::other_ns, [=, scale = op.scale, cap = op.cap] {
        std::vector<float> row(x.columns);
        for (size_t r = 0; r < x.rows; ++r) {
            x.read(r, row);
            x.put(r, false,
                  [&](size_t i) { return reference::soft_cap(row[i] * static_cast<double>(scale), cap); });
        }
    });
}

} // namespace orrery::kernels
