// One random matrix product: a weight of one or two parts, some rows, a prologue, perhaps bias and sum.
#pragma once

#include "kernels/selftest/support.h"

#include <string>

namespace orrery::kernels::selftest {

class LinearCase {
public:
    LinearCase(TensorType type, Random& random);
    LinearCase(const LinearCase&) = delete;
    LinearCase& operator=(const LinearCase&) = delete;

    const std::string& shape() const { return shape_; }
    int rows() const { return rows_; }
    /// The output [rows, weight rows] of some of the rows.
    Floats run(Backend& backend, int first, int rows) const;

    struct Error {
        double error = 0.0;
        double bound = 0.0;
    };
    /// The worst element of an output of all rows, as its part of the weight judges it.
    Error compare(const Floats& got, const Floats& expected) const;

private:
    void add_part(TensorType type, Random& random);
    Floats prepared(size_t row) const;

    std::vector<std::vector<std::byte>> bytes_;
    std::vector<WeightPart> parts_;
    int rows_ = 0;
    size_t columns_ = 0;
    size_t x_columns_ = 0;
    size_t out_columns_ = 0;
    size_t groups_ = 0;          ///< of 32 columns
    Floats group_squares_;       ///< Σ w² of each group, [out_columns, groups]
    std::vector<double> bounds_; ///< [out_columns]
    NormKind norm_kind_ = NormKind::none;
    Activation activation_;
    bool accumulate_ = false;
    Floats x_, norm_, bias_;
    Floats before_; ///< what the output holds beforehand
    std::string shape_;
};

} // namespace orrery::kernels::selftest
