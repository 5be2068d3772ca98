#include "kernels/reference/operations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace orrery::kernels::reference {

double dot(std::span<const float> a, std::span<const float> b) {
    // Eight running sums instead of one let the processor overlap the additions; element i always goes to
    // sum i mod 8, and the eight are added from left to right.
    constexpr size_t lanes = 8;
    double sums[lanes] = {};
    size_t i = 0;
    for (; i + lanes <= a.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    for (; i < a.size(); ++i)
        sums[i % lanes] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    double sum = 0.0;
    for (const double part : sums)
        sum += part;
    return sum;
}

void norm(std::span<const float> x, const NormValues& norm, std::span<float> out) {
    const auto count = static_cast<double>(x.size());
    double mean = 0.0;
    double mean_of_squares = 0.0; // of x − mean
    switch (norm.kind) {
    case NormKind::none:
        std::copy(x.begin(), x.end(), out.begin());
        return;
    case NormKind::rms:
        mean_of_squares = dot(x, x) / count;
        break;
    case NormKind::layer:
        for (const float value : x)
            mean += value;
        mean /= count;
        for (const float value : x)
            mean_of_squares += (value - mean) * (value - mean);
        mean_of_squares /= count;
        break;
    }
    const double scale = 1.0 / std::sqrt(mean_of_squares + static_cast<double>(norm.eps));
    for (size_t i = 0; i < x.size(); ++i) {
        double value = (x[i] - mean) * scale;
        if (!norm.weight.empty())
            value *= static_cast<double>(norm.weight[i]) + static_cast<double>(norm.weight_offset);
        if (!norm.bias.empty())
            value += norm.bias[i];
        out[i] = static_cast<float>(value);
    }
}

double activate(ActivationKind kind, double z, double alpha) {
    switch (kind) {
    case ActivationKind::none:
        return z;
    case ActivationKind::silu:
        return z / (1.0 + std::exp(-alpha * z));
    case ActivationKind::gelu:
        return z * 0.5 * std::erfc(-z / std::numbers::sqrt2);
    case ActivationKind::gelu_tanh:
        return 0.5 * z *
               (1.0 + std::tanh(std::sqrt(2.0 * std::numbers::inv_pi) * (z + 0.044715 * z * z * z)));
    case ActivationKind::relu2:
        return z <= 0.0 ? 0.0 : z * z; // a NaN stays one
    case ActivationKind::sigmoid:
        return 1.0 / (1.0 + std::exp(-z));
    }
    return z;
}

double soft_cap(double z, double cap) {
    return cap > 0.0 ? cap * std::tanh(z / cap) : z;
}

void activate(std::span<const float> x, const Activation& activation, std::span<float> out) {
    const double alpha = activation.alpha;
    if (!activation.gated) {
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<float>(activate(activation.kind, x[i], alpha));
        return;
    }
    const double limit = activation.limit;
    for (size_t i = 0; i < out.size(); ++i) {
        double gate = x[i];
        double up = x[i + out.size()];
        if (limit > 0.0) {
            gate = std::min(gate, limit);
            up = std::clamp(up, -limit, limit);
        }
        out[i] = static_cast<float>(activate(activation.kind, gate, alpha) *
                                    (up + static_cast<double>(activation.up_offset)));
    }
}

} // namespace orrery::kernels::reference
