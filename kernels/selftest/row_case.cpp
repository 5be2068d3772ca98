#include "kernels/selftest/row_case.h"

#include "kernels/selftest/random_weights.h"

#include <memory>
#include <numeric>

namespace orrery::kernels::selftest {

namespace {

constexpr auto all_kinds = {ActivationKind::none,      ActivationKind::silu,  ActivationKind::gelu,
                            ActivationKind::gelu_tanh, ActivationKind::relu2, ActivationKind::sigmoid};
constexpr const char* kind_names[] = {"none", "silu", "gelu", "gelu_tanh", "relu2", "sigmoid"};

std::string by(int64_t rows, int64_t columns) {
    return std::to_string(rows) + " × " + std::to_string(columns);
}

int random_rows(Random& random) {
    return random.one_of({1, random.number(2, 9), random.number(10, 70)});
}

/// Rows [first, first + rows) of a matrix; nothing of one that is not there.
Floats cut(const Floats& values, int first, int rows, int64_t columns) {
    if (values.empty())
        return {};
    const auto begin = values.begin() + first * columns;
    return {begin, begin + rows * columns};
}

Floats matrix_of(Random& random, int64_t rows, int64_t columns, float deviation = 1.0f) {
    return random.normal(static_cast<size_t>(rows * columns), 0.0f, deviation);
}

/// Two results, row by row.
Floats side_by_side(const Floats& a, const Floats& b, int rows) {
    Floats both;
    const auto width_a = static_cast<std::ptrdiff_t>(a.size()) / rows;
    const auto width_b = static_cast<std::ptrdiff_t>(b.size()) / rows;
    for (std::ptrdiff_t row = 0; row < rows; ++row) {
        both.insert(both.end(), a.begin() + row * width_a, a.begin() + (row + 1) * width_a);
        both.insert(both.end(), b.begin() + row * width_b, b.begin() + (row + 1) * width_b);
    }
    return both;
}

} // namespace

RowCase norm_case(Random& random) {
    struct Content {
        int groups, columns;
        NormKind kind;
        bool shared;
        float offset, eps, add_scale, scale;
        bool accumulate, in_place;
        GateOrder order;
        Floats x, add, gate, before, weight, bias;
    };
    auto c = std::make_shared<Content>();
    const int rows = random_rows(random);
    c->groups = random.one_of({1, 1, random.number(2, 9)});
    const int width = random.one_of({random.number(1, 40), random.number(41, 500)});
    c->columns = c->groups * width;
    c->kind = random.one_of({NormKind::rms, NormKind::rms, NormKind::layer, NormKind::none});
    c->shared = random.coin();
    c->offset = random.one_of({0.0f, 1.0f});
    c->eps = random.one_of({1e-5f, 1e-6f});
    c->add_scale = random.one_of({1.0f, 0.22f});
    c->scale = random.one_of({1.0f, 1.0f, 0.5f});
    c->accumulate = random.coin();
    c->in_place = !c->accumulate && random.coin();
    c->order = random.one_of({GateOrder::before, GateOrder::after});
    c->x = matrix_of(random, rows, c->columns, random.one_of({0.5f, 3.0f}));
    if (random.coin())
        c->add = matrix_of(random, rows, c->columns);
    const bool gated = random.number(0, 2) == 0;
    if (gated)
        c->gate = matrix_of(random, rows, c->columns, 2.0f);
    if (c->accumulate)
        c->before = matrix_of(random, rows, c->columns);
    const auto weights = static_cast<size_t>(c->shared ? width : c->columns);
    if (random.coin())
        c->weight = random.normal(weights, 1.0f, 0.3f);
    if (random.coin())
        c->bias = random.normal(weights);

    RowCase result;
    result.operation = "norm";
    result.rows = rows;
    static constexpr const char* kinds[] = {"none", "rms", "layer"};
    result.shape = by(rows, c->columns) + ", " + kinds[static_cast<int>(c->kind)] + " in " +
                   std::to_string(c->groups) + (c->add.empty() ? "" : ", add") +
                   (gated ? c->order == GateOrder::before ? ", gate before" : ", gate after" : "") +
                   (c->accumulate ? ", accumulate" : "") + (c->in_place ? ", in place" : "");
    result.run = [c, &random](Backend& backend, int first, int count) {
        const auto place = [&](const Floats& values) {
            return std::make_unique<Placed>(backend, random, count, c->columns,
                                            cut(values, first, count, c->columns));
        };
        const auto x = place(c->x), add = place(c->add), gate = place(c->gate), out = place(c->before);
        const OnDevice weight(backend, c->weight), bias(backend, c->bias);
        backend.norm({.x = *x,
                      .out = c->in_place ? *x : *out,
                      .norm = {c->kind, c->weight.empty() ? Buffer() : Buffer(weight),
                               c->bias.empty() ? Buffer() : Buffer(bias), c->eps, c->offset},
                      .groups = c->groups,
                      .weight_shared = c->shared,
                      .add = c->add.empty() ? View() : *add,
                      .add_scale = c->add_scale,
                      .scale = c->scale,
                      .accumulate = c->accumulate,
                      .gate = c->gate.empty() ? View() : *gate,
                      .gate_order = c->order});
        return c->in_place ? x->download() : side_by_side(x->download(), out->download(), count);
    };
    return result;
}

RowCase gate_case(Random& random) {
    const int rows = random_rows(random);
    const int columns = random.number(1, 300);
    const int gate_columns = random.coin() ? columns : 1;
    const ActivationKind kind = random.one_of<ActivationKind>(all_kinds);
    const float alpha = random.one_of({1.0f, 1.702f});
    const int target = random.number(0, gate_columns == columns ? 2 : 1); // a third view, x or gate
    const Floats gate = matrix_of(random, rows, gate_columns, 2.0f), x = matrix_of(random, rows, columns);
    RowCase result;
    result.operation = "gate";
    result.rows = rows;
    result.shape =
        by(rows, columns) + ", " + kind_names[static_cast<int>(kind)] + " of " + std::to_string(gate_columns);
    result.run = [=, &random](Backend& backend, int first, int count) {
        const Placed g(backend, random, count, gate_columns, cut(gate, first, count, gate_columns));
        const Placed v(backend, random, count, columns, cut(x, first, count, columns));
        const Placed out(backend, random, count, columns);
        const Placed& to = target == 0 ? out : target == 1 ? v : g;
        backend.gate({.gate = g, .x = v, .out = to, .activation = {.kind = kind, .alpha = alpha}});
        return to.download();
    };
    return result;
}

RowCase add_case(Random& random) {
    const int rows = random_rows(random);
    const int columns = random.number(1, 300);
    const float scale = random.one_of({1.0f, 0.22f});
    const bool accumulate = random.coin();
    const Floats x = matrix_of(random, rows, columns), before = matrix_of(random, rows, columns);
    RowCase result;
    result.operation = "add";
    result.rows = rows;
    result.shape = by(rows, columns) + (accumulate ? ", accumulate" : "");
    result.run = [=, &random](Backend& backend, int first, int count) {
        const Placed v(backend, random, count, columns, cut(x, first, count, columns));
        const Placed out(backend, random, count, columns,
                         accumulate ? cut(before, first, count, columns) : Floats());
        backend.add({.x = v, .out = out, .scale = scale, .accumulate = accumulate});
        return out.download();
    };
    return result;
}

RowCase soft_cap_case(Random& random) {
    const int rows = random_rows(random);
    const int columns = random.number(1, 300);
    const float scale = random.one_of({1.0f, 0.125f});
    const float cap = random.one_of({0.0f, 30.0f, 2.0f});
    const Floats x = matrix_of(random, rows, columns, 20.0f);
    RowCase result;
    result.operation = "soft_cap";
    result.rows = rows;
    result.shape = by(rows, columns) + ", cap " + std::to_string(cap);
    result.run = [=, &random](Backend& backend, int first, int count) {
        const Placed v(backend, random, count, columns, cut(x, first, count, columns));
        backend.soft_cap({v, scale, cap});
        return v.download();
    };
    return result;
}

RowCase route_case(Random& random) {
    RouteOp op;
    const int rows = random_rows(random);
    op.groups = random.one_of({1, 2, 4, 8});
    op.top_groups = random.number(1, op.groups);
    const int group_size = random.number(2, 20);
    const int experts = op.groups * group_size;
    op.top_k = random.number(1, std::min(10, group_size * op.top_groups));
    op.score = random.one_of({RouterScore::softmax, RouterScore::sigmoid});
    op.group_score = random.one_of({GroupScore::largest, GroupScore::two_largest});
    op.normalize = random.coin();
    op.sum_floor = random.one_of({0.0f, 0.3f});
    op.scale = random.one_of({1.0f, 2.5f});
    const Floats logits = matrix_of(random, rows, experts, 2.0f);
    const Floats bias = random.coin() ? random.normal(static_cast<size_t>(experts), 0.0f, 0.1f) : Floats();
    RowCase result;
    result.operation = "route";
    result.rows = rows;
    result.shape = by(rows, op.top_k) + " of " + std::to_string(experts) + " in " +
                   std::to_string(op.top_groups) + " of " + std::to_string(op.groups) + " groups";
    result.run = [=, &random](Backend& backend, int first, int count) {
        const Placed v(backend, random, count, experts, cut(logits, first, count, experts));
        const auto chosen = static_cast<size_t>(count * op.top_k);
        const OnDevice indices(backend, chosen), weights(backend, chosen), offsets(backend, bias);
        RouteOp wanted = op;
        wanted.logits = v;
        wanted.experts = indices;
        wanted.weights = weights;
        wanted.bias = bias.empty() ? Buffer() : Buffer(offsets);
        backend.route(wanted);
        Floats numbers;
        for (const float bits : indices.download(chosen)) {
            int32_t index = 0;
            std::memcpy(&index, &bits, sizeof index);
            numbers.push_back(static_cast<float>(index));
        }
        return side_by_side(numbers, weights.download(chosen), count);
    };
    return result;
}

RowCase combine_case(Random& random) {
    const int rows = random_rows(random);
    const int columns = random.number(1, 300);
    const int top_k = random.number(1, 8);
    const bool weighted = random.number(0, 3) > 0;
    const bool accumulate = random.coin();
    const float scale = random.one_of({1.0f, 2.5f});
    const Floats x = matrix_of(random, rows * top_k, columns), before = matrix_of(random, rows, columns);
    const Floats weights = matrix_of(random, rows, top_k);
    RowCase result;
    result.operation = "combine_experts";
    result.rows = rows;
    result.shape = by(rows, columns) + " of " + std::to_string(top_k) + (accumulate ? ", accumulate" : "");
    result.run = [=, &random](Backend& backend, int first, int count) {
        const Placed v(backend, random, count * top_k, columns,
                       cut(x, first * top_k, count * top_k, columns));
        const Placed out(backend, random, count, columns,
                         accumulate ? cut(before, first, count, columns) : Floats());
        const OnDevice factors(backend, cut(weights, first, count, top_k));
        backend.combine_experts({.x = v,
                                 .out = out,
                                 .weights = weighted ? Buffer(factors) : Buffer(),
                                 .top_k = top_k,
                                 .scale = scale,
                                 .accumulate = accumulate});
        return out.download();
    };
    return result;
}

ExpertCase expert_case(TensorType type, Random& random) {
    struct Content {
        std::vector<std::byte> bytes;
        WeightPart part;
        int experts, height, top_k, rows;
        int64_t x_columns;
        bool per_slot;
        Activation activation;
        Floats x, bias, input_scale;
        std::vector<int32_t> chosen;
    };
    auto c = std::make_shared<Content>();
    const int64_t columns = random_columns(type, random);
    c->experts = random.number(1, 12);
    c->height = random.one_of({random.number(1, 20), random.number(16, 70)});
    c->top_k = random.number(1, std::min(4, c->experts));
    c->rows = random_rows(random);
    c->per_slot = random.coin();
    if (random.coin())
        c->activation = {.kind = random.one_of<ActivationKind>(all_kinds),
                         .gated = true,
                         .limit = random.one_of({0.0f, 2.0f}),
                         .up_offset = random.one_of({0.0f, 1.0f})};
    c->x_columns = c->activation.gated ? 2 * columns : columns;
    c->x = matrix_of(random, c->per_slot ? c->rows * c->top_k : c->rows, c->x_columns);
    c->bytes = random_weights(type, c->experts * c->height, columns, random.bits());
    c->part = {type, c->experts * c->height, columns, c->bytes.data()};
    if (random.coin())
        c->bias = random.normal(static_cast<size_t>(c->experts * c->height));
    std::vector<int32_t> all(static_cast<size_t>(c->experts));
    std::iota(all.begin(), all.end(), 0);
    for (int row = 0; row < c->rows; ++row) {
        std::shuffle(all.begin(), all.end(), random.bits());
        c->chosen.insert(c->chosen.end(), all.begin(), all.begin() + c->top_k);
    }

    ExpertCase result;
    result.operation = std::string("expert_linear ") + info(type).name;
    result.rows = c->rows;
    result.shape =
        by(c->rows, columns) + " → " + std::to_string(c->height) + ", " + std::to_string(c->top_k) + " of " +
        std::to_string(c->experts) + (c->per_slot ? ", per slot" : "") +
        (c->activation.gated ? std::string(", gated ") + kind_names[static_cast<int>(c->activation.kind)]
                             : "") +
        (c->bias.empty() ? "" : ", bias");
    result.run = [c, &random](Backend& backend, int first, int count) {
        const Owned weight(backend, backend.load_weight({&c->part, 1}));
        const int each = c->per_slot ? c->top_k : 1;
        const Placed x(backend, random, count * each, c->x_columns,
                       cut(c->x, first * each, count * each, c->x_columns));
        const Placed out(backend, random, count * c->top_k, c->height);
        const auto slots = static_cast<size_t>(count * c->top_k);
        const OnDevice chosen(backend, slots), bias(backend, c->bias);
        backend.upload(
            chosen, 0,
            std::as_bytes(std::span(c->chosen).subspan(static_cast<size_t>(first * c->top_k), slots)));
        backend.expert_linear({.x = x,
                               .weight = weight,
                               .out = out,
                               .experts = c->experts,
                               .top_k = c->top_k,
                               .experts_of = chosen,
                               .per_slot = c->per_slot,
                               .activation = c->activation,
                               .bias = c->bias.empty() ? Buffer() : Buffer(bias)});
        return out.download();
    };
    result.expected = [c, &random](Backend& backend) {
        const Owned weight(backend, backend.load_weight({&c->part, 1}));
        const int64_t rows = static_cast<int64_t>(c->x.size()) / c->x_columns;
        const Placed x(backend, random, rows, c->x_columns, c->x);
        const Placed out(backend, random, rows, c->part.rows);
        const OnDevice bias(backend, c->bias);
        backend.linear({.x = x,
                        .weight = weight,
                        .out = out,
                        .activation = c->activation,
                        .bias = c->bias.empty() ? Buffer() : Buffer(bias)});
        const Floats all_experts = out.download();
        Floats wanted;
        for (size_t slot = 0; slot < c->chosen.size(); ++slot) {
            const size_t row = c->per_slot ? slot : slot / static_cast<size_t>(c->top_k);
            const auto begin = all_experts.begin() + static_cast<std::ptrdiff_t>(row) * c->part.rows +
                               c->chosen[slot] * c->height;
            wanted.insert(wanted.end(), begin, begin + c->height);
        }
        return wanted;
    };
    return result;
}

} // namespace orrery::kernels::selftest
