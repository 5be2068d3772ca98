#include "kernels/reference/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

void rms_norm(std::span<const float> x, std::span<const float> norm, float eps, std::span<float> out) {
    const double mean_of_squares = dot(x, x) / static_cast<double>(x.size());
    const double scale = 1.0 / std::sqrt(mean_of_squares + static_cast<double>(eps));
    for (size_t i = 0; i < x.size(); ++i)
        out[i] = static_cast<float>(x[i] * scale * norm[i]);
}

void silu_gate(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
    for (size_t i = 0; i < gate.size(); ++i) {
        const double z = gate[i];
        out[i] = static_cast<float>(z / (1.0 + std::exp(-z)) * up[i]);
    }
}

void turn(std::span<float> head, std::span<const float> cosines_and_sines, RopeStyle style) {
    const size_t pairs = cosines_and_sines.size() / 2;
    for (size_t pair = 0; pair < pairs; ++pair) {
        const bool interleaved = style == RopeStyle::interleaved;
        float& first = head[interleaved ? 2 * pair : pair];
        float& second = head[interleaved ? 2 * pair + 1 : pair + pairs];
        const float cosine = cosines_and_sines[2 * pair];
        const float sine = cosines_and_sines[2 * pair + 1];
        const float a = first;
        const float b = second;
        first = a * cosine - b * sine;
        second = a * sine + b * cosine;
    }
}

void attend(std::span<const float> query, std::span<const float> keys, std::span<const float> values,
            float scale, std::span<float> out) {
    const size_t key_length = query.size();
    const size_t value_length = out.size();
    const size_t tokens = keys.size() / key_length;

    std::vector<double> weights(tokens);
    for (size_t token = 0; token < tokens; ++token)
        weights[token] = dot(query, keys.subspan(token * key_length, key_length)) * scale;

    // Subtracting the largest score changes nothing but keeps the exponentials from overflowing.
    const double largest = *std::max_element(weights.begin(), weights.end());
    double total = 0.0;
    for (double& weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
    }

    std::vector<double> mean(value_length);
    for (size_t token = 0; token < tokens; ++token)
        for (size_t i = 0; i < value_length; ++i)
            mean[i] += weights[token] * static_cast<double>(values[token * value_length + i]);
    for (size_t i = 0; i < value_length; ++i)
        out[i] = static_cast<float>(mean[i] / total);
}

} // namespace orrery::kernels::reference
