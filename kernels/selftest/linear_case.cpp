#include "kernels/selftest/linear_case.h"

#include "kernels/reference/operations.h"
#include "kernels/selftest/random_weights.h"

namespace orrery::kernels::selftest {

namespace {

constexpr size_t group_columns = 32;
constexpr float eps = 1e-5f;

/// A device may round activations before it multiplies: not at all for F32 weights, to binary16 for F16, to
/// bfloat16 for BF16, and for all others to 8 bits with a scale per group. With 8 bits an activation is off
/// by peak / 127 / √12 rms, where peak is the largest of its group, so an output is off by 1 / (127 · √12) of
/// √Σ(peak · w)², our unit. Of 10⁴ outputs the worst is off by 4.2 times that; 7 times is beyond all chance
/// and leaves room for groups larger than ours. The small floats are off by 0.4 · 2⁻¹¹ and 0.4 · 2⁻⁸ rms of
/// an activation, which is about half of its peak; 7 times that, too.
double bound_of(TensorType type) {
    switch (type) {
    case TensorType::F32:
        return 5e-6;
    case TensorType::F16:
        return 7e-4;
    case TensorType::BF16:
        return 5.5e-3;
    default:
        return 0.016;
    }
}

} // namespace

LinearCase::LinearCase(TensorType type, Random& random) {
    columns_ = static_cast<size_t>(random_columns(type, random));
    groups_ = (columns_ + group_columns - 1) / group_columns;
    add_part(type, random);
    // Sometimes a second part in another format that has rows of this width.
    const auto types = all_tensor_types();
    const TensorType other = types[static_cast<size_t>(random.number(0, static_cast<int>(types.size()) - 1))];
    if (random.coin() && columns_ % info(other).block_elements == 0)
        add_part(other, random);

    rows_ = random.one_of({1, random.number(2, 9), random.number(10, 70)});
    out_columns_ = bounds_.size();
    const int prologue = random.number(0, 2);
    if (prologue == 1)
        norm_kind_ = NormKind::rms;
    if (prologue == 2)
        activation_ = {.kind = ActivationKind::silu, .gated = true};
    x_columns_ = activation_.gated ? 2 * columns_ : columns_;
    accumulate_ = random.coin();
    x_ = random.normal(static_cast<size_t>(rows_) * x_columns_, 0.1f, random.one_of({0.5f, 3.0f}));
    norm_ = random.normal(columns_, 1.0f, 0.3f);
    before_ = random.normal(static_cast<size_t>(rows_) * out_columns_);
    if (random.coin())
        bias_ = random.normal(out_columns_);

    shape_ = std::to_string(rows_) + " × " + std::to_string(columns_) + " →";
    for (const WeightPart& part : parts_)
        shape_ +=
            (&part == &parts_.front() ? " " : " + ") + std::to_string(part.rows) + " " + info(part.type).name;
    static constexpr const char* prologues[] = {"", ", rms_norm", ", silu_gate"};
    shape_ += prologues[prologue];
    shape_ += bias_.empty() ? "" : ", bias";
    shape_ += accumulate_ ? ", accumulate" : "";
}

void LinearCase::add_part(TensorType type, Random& random) {
    const int rows = random.one_of({random.number(1, 20), random.number(1, 150)});
    bytes_.push_back(random_weights(type, rows, static_cast<int64_t>(columns_), random.bits()));
    parts_.push_back({type, rows, static_cast<int64_t>(columns_), bytes_.back().data()});
    Floats weights(columns_);
    for (int row = 0; row < rows; ++row) {
        decode(type, bytes_.back().data() + static_cast<size_t>(row) * row_bytes(type, columns_),
               weights.data(), columns_);
        bounds_.push_back(bound_of(type));
        for (size_t group = 0; group < groups_; ++group) {
            const size_t first = group * group_columns;
            const std::span part(&weights[first], std::min(group_columns, columns_ - first));
            group_squares_.push_back(static_cast<float>(reference::dot(part, part)));
        }
    }
}

Floats LinearCase::run(Backend& backend, int first, int rows) const {
    const auto cut = [&](const Floats& values, size_t width) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(first) * width);
        return Floats(begin, begin + static_cast<std::ptrdiff_t>(static_cast<size_t>(rows) * width));
    };
    const Owned weight(backend, backend.load_weight(parts_));
    const OnDevice x(backend, cut(x_, x_columns_));
    const OnDevice out(backend, cut(before_, out_columns_));
    const OnDevice norm(backend, norm_);
    const OnDevice bias(backend, bias_);
    backend.linear({.x = matrix(x, rows, static_cast<int64_t>(x_columns_)),
                    .weight = weight,
                    .out = matrix(out, rows, static_cast<int64_t>(out_columns_)),
                    .norm = {.kind = norm_kind_, .weight = norm, .eps = eps},
                    .activation = activation_,
                    .bias = bias_.empty() ? Buffer() : Buffer(bias),
                    .accumulate = accumulate_});
    return out.download(static_cast<size_t>(rows) * out_columns_);
}

/// One row of x once the prologue has been applied.
Floats LinearCase::prepared(size_t row) const {
    const std::span from(&x_[row * x_columns_], x_columns_);
    Floats to(columns_);
    if (norm_kind_ != NormKind::none)
        reference::norm(from, {norm_kind_, norm_, {}, eps}, to);
    else
        reference::activate(from, activation_, to);
    return to;
}

LinearCase::Error LinearCase::compare(const Floats& got, const Floats& expected) const {
    Error worst = {0.0, bounds_.front()};
    for (size_t row = 0; row < static_cast<size_t>(rows_); ++row) {
        const Floats x = prepared(row);
        std::vector<double> peaks(groups_);
        for (size_t i = 0; i < columns_; ++i)
            peaks[i / group_columns] =
                std::max(peaks[i / group_columns], std::abs(static_cast<double>(x[i])));
        for (size_t column = 0; column < out_columns_; ++column) {
            double square = 0.0;
            for (size_t group = 0; group < groups_; ++group)
                square += peaks[group] * peaks[group] *
                          static_cast<double>(group_squares_[column * groups_ + group]);
            // Sum, bias and what was there before are added in float, with two roundings of 2⁻²⁴ each.
            const size_t i = row * out_columns_ + column;
            double addends = std::abs(static_cast<double>(expected[i]));
            if (!bias_.empty())
                addends += std::abs(static_cast<double>(bias_[column]));
            if (accumulate_)
                addends += std::abs(static_cast<double>(before_[i]));
            const double excess = difference(got[i], expected[i]) - addends * 0x1p-23;
            // Where all weights are zero the unit is zero, and the output must be exact.
            const double error = excess > 0.0 ? excess / std::sqrt(square) : 0.0;
            if (error * worst.bound >= worst.error * bounds_[column])
                worst = {error, bounds_[column]};
        }
    }
    return worst;
}

} // namespace orrery::kernels::selftest
