#include "kernels/reference/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::kernels::reference {

namespace {

/// ln(1 + e^z)
double softplus(double z) {
    return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
}

/// x / √(Σx² + 1e-6)
std::vector<double> unit(std::span<const float> x) {
    const double scale = 1.0 / std::sqrt(dot(x, x) + 1e-6);
    std::vector<double> scaled(x.begin(), x.end());
    for (double& value : scaled)
        value *= scale;
    return scaled;
}

} // namespace

void convolve(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
              ActivationKind activation, std::span<float> inputs, std::span<float> out) {
    const size_t channels = x.size();
    const size_t kernel = weight.size() / channels;
    for (size_t c = 0; c < channels; ++c) {
        double sum = bias.empty() ? 0.0 : static_cast<double>(bias[c]);
        for (size_t i = 0; i < kernel; ++i) {
            const float input = i + 1 < kernel ? inputs[i * channels + c] : x[c];
            sum += static_cast<double>(weight[c * kernel + i]) * static_cast<double>(input);
        }
        out[c] = static_cast<float>(activate(activation, sum));
    }
    if (!inputs.empty()) {
        std::copy(inputs.begin() + static_cast<std::ptrdiff_t>(channels), inputs.end(), inputs.begin());
        std::copy(x.begin(), x.end(), inputs.end() - static_cast<std::ptrdiff_t>(channels));
    }
}

void ssm_step(std::span<const float> x, std::span<const float> b, std::span<const float> c,
              const SsmStep& step, std::span<float> state, std::span<float> out) {
    const size_t columns = b.size();
    const double delta =
        std::clamp(softplus(static_cast<double>(step.dt) + static_cast<double>(step.dt_bias)),
                   static_cast<double>(step.dt_min), static_cast<double>(step.dt_max));
    const double decay = std::exp(delta * static_cast<double>(step.a));
    for (size_t row = 0; row < x.size(); ++row) {
        const std::span head(&state[row * columns], columns);
        const double input = delta * static_cast<double>(x[row]);
        for (size_t i = 0; i < columns; ++i)
            head[i] =
                static_cast<float>(decay * static_cast<double>(head[i]) + input * static_cast<double>(b[i]));
        out[row] =
            static_cast<float>(dot(head, c) + static_cast<double>(step.d) * static_cast<double>(x[row]));
    }
}

void delta_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                const DeltaStep& step, std::span<float> state, std::span<float> out) {
    const size_t rows = k.size();
    const size_t columns = v.size();
    const std::vector<double> query = unit(q);
    const std::vector<double> key = unit(k);
    const double decay = std::exp(static_cast<double>(step.a) * softplus(static_cast<double>(step.decay) +
                                                                         static_cast<double>(step.dt_bias)));
    const double beta = activate(ActivationKind::sigmoid, step.beta);
    const double scale = 1.0 / std::sqrt(static_cast<double>(rows));
    for (size_t column = 0; column < columns; ++column) {
        double known = 0.0; // (Sᵀk) of this column
        for (size_t row = 0; row < rows; ++row)
            known += decay * static_cast<double>(state[row * columns + column]) * key[row];
        const double change = beta * (static_cast<double>(v[column]) - known);
        double sum = 0.0;
        for (size_t row = 0; row < rows; ++row) {
            float& element = state[row * columns + column];
            element = static_cast<float>(decay * static_cast<double>(element) + key[row] * change);
            sum += static_cast<double>(element) * query[row];
        }
        out[column] = static_cast<float>(sum * scale);
    }
}

} // namespace orrery::kernels::reference
