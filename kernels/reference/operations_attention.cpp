#include "kernels/reference/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery::kernels::reference {

void apply_rope(std::span<float> head, std::span<const float> cosines_and_sines, RopeStyle style) {
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
            const ScoreOptions& options, std::span<float> out) {
    const size_t key_length = query.size();
    const size_t value_length = out.size();
    const size_t tokens = keys.size() / key_length;

    std::vector<double> weights(tokens);
    for (size_t token = 0; token < tokens; ++token) {
        const double product = dot(query, keys.subspan(token * key_length, key_length));
        const double score = soft_cap(product * static_cast<double>(options.scale), options.soft_cap);
        weights[token] = score - static_cast<double>(options.alibi) * static_cast<double>(tokens - 1 - token);
    }

    // Subtracting the largest score changes nothing but keeps the exponentials from overflowing.
    double largest = *std::max_element(weights.begin(), weights.end());
    if (options.sink)
        largest = std::max(largest, static_cast<double>(*options.sink));
    double total = 0.0;
    for (double& weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
    }
    if (options.sink)
        total += std::exp(static_cast<double>(*options.sink) - largest);

    std::vector<double> mean(value_length);
    for (size_t token = 0; token < tokens; ++token)
        for (size_t i = 0; i < value_length; ++i)
            mean[i] += weights[token] * static_cast<double>(values[token * value_length + i]);
    for (size_t i = 0; i < value_length; ++i)
        out[i] = static_cast<float>(mean[i] / total);
}

} // namespace orrery::kernels::reference
