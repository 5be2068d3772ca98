#include "tests/support/naive_llama.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace orrery::test {

namespace {

using Vector = std::vector<double>;

class Weights {
public:
    explicit Weights(const GgufFile& file) : file_(file) {}

    bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

    Vector all(const std::string& name) const {
        const GgufTensor* tensor = file_.find_tensor(name);
        if (!tensor)
            throw std::runtime_error("no tensor " + name);
        std::vector<float> values(static_cast<size_t>(tensor->elements()));
        kernels::decode(tensor->type, tensor->bytes.data(), values.data(), values.size());
        return {values.begin(), values.end()};
    }

    /// y = W x + b; b only where the file has one.
    Vector times(const std::string& name, const Vector& x) const {
        const Vector weight = all(name + ".weight");
        Vector y(weight.size() / x.size());
        if (has(name + ".bias"))
            y = all(name + ".bias");
        for (size_t row = 0; row < y.size(); ++row)
            for (size_t column = 0; column < x.size(); ++column)
                y[row] += weight[row * x.size() + column] * x[column];
        return y;
    }

    /// The same with one matrix of [experts, rows, columns].
    Vector times_expert(const std::string& name, size_t expert, size_t experts, const Vector& x) const {
        const Vector weight = all(name + ".weight");
        const size_t size = weight.size() / experts;
        Vector y(size / x.size());
        for (size_t i = 0; i < size; ++i)
            y[i / x.size()] += weight[expert * size + i] * x[i % x.size()];
        return y;
    }

    Vector norm(const std::string& name, const Vector& x, double eps) const {
        double squares = 0;
        for (const double value : x)
            squares += value * value;
        const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
        Vector y = all(name + ".weight");
        for (size_t i = 0; i < x.size(); ++i)
            y[i] *= x[i] * scale;
        return y;
    }

private:
    const GgufFile& file_;
};

/// Rotates the pairs (x0, x1), (x2, x3), … of one head.
void rotate(double* head, const RopeConfig& rope, size_t position) {
    for (int i = 0; i < rope.dimensions / 2; ++i) {
        double angle = static_cast<double>(position) * std::pow(rope.base, -2.0 * i / rope.dimensions);
        angle /= rope.linear_factor;
        if (!rope.frequency_factors.empty())
            angle /= static_cast<double>(rope.frequency_factors[static_cast<size_t>(i)]);
        const double a = head[2 * i], b = head[2 * i + 1];
        head[2 * i] = a * std::cos(angle) - b * std::sin(angle);
        head[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
}

/// down · (silu(gate · y) ∘ up · y)
template <typename Times>
Vector gated(const Vector& y, const Times& times) {
    Vector gate = times("gate", y);
    const Vector up = times("up", y);
    for (size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    return times("down", gate);
}

/// Σ wₑ · expertₑ(y) over the likeliest experts, w their likelihoods, divided by their sum.
Vector mixture(const Weights& weights, const std::string& at, const Vector& y, const ExpertConfig& config) {
    const Vector logits = weights.times(at + "ffn_gate_inp", y);
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    order.resize(size_t(config.used));
    double sum = 0;
    for (const size_t expert : order)
        sum += std::exp(logits[expert] - logits[order[0]]);
    Vector out;
    for (const size_t expert : order) {
        const double share = std::exp(logits[expert] - logits[order[0]]) / sum;
        const Vector one = gated(y, [&](const char* name, const Vector& in) {
            return weights.times_expert(at + "ffn_" + name + "_exps", expert, logits.size(), in);
        });
        out.resize(one.size());
        for (size_t i = 0; i < one.size(); ++i)
            out[i] += share * one[i];
    }
    return out;
}

} // namespace

std::vector<double> naive_llama(const GgufFile& file, const ModelConfig& config,
                                const std::vector<int32_t>& ids) {
    const Weights weights(file);
    const auto hidden = static_cast<size_t>(config.hidden);

    const Vector table = weights.all("token_embd.weight");
    std::vector<Vector> x;
    for (const int32_t id : ids) {
        const auto row = table.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(id) * hidden);
        x.emplace_back(row, row + static_cast<ptrdiff_t>(hidden));
    }

    for (size_t layer = 0; layer < config.layers.size(); ++layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        const LayerConfig& shape = config.layers[layer];
        const auto heads = static_cast<size_t>(shape.heads),
                   group = heads / static_cast<size_t>(shape.kv_heads),
                   key = static_cast<size_t>(shape.key_length),
                   value = static_cast<size_t>(shape.value_length);
        const RopeConfig rope = shape.rope < 0 ? RopeConfig() : config.ropes[static_cast<size_t>(shape.rope)];
        std::vector<Vector> queries, keys, values;
        for (size_t p = 0; p < x.size(); ++p) {
            const Vector y = weights.norm(at + "attn_norm", x[p], config.norm_eps);
            queries.push_back(weights.times(at + "attn_q", y));
            keys.push_back(weights.times(at + "attn_k", y));
            values.push_back(weights.times(at + "attn_v", y));
            for (size_t h = 0; h < heads; ++h)
                rotate(&queries[p][h * key], rope, p);
            for (size_t h = 0; h < heads / group; ++h)
                rotate(&keys[p][h * key], rope, p);
        }
        for (size_t p = 0; p < x.size(); ++p) {
            Vector mixed(heads * value);
            for (size_t h = 0; h < heads; ++h) {
                const size_t first = shape.window > 0 ? p + 1 - std::min(p + 1, size_t(shape.window)) : 0;
                Vector scores(p + 1, -INFINITY); // what lies before the window
                for (size_t q = first; q <= p; ++q) {
                    scores[q] = 0;
                    for (size_t i = 0; i < key; ++i)
                        scores[q] += queries[p][h * key + i] * keys[q][h / group * key + i];
                    scores[q] /= std::sqrt(static_cast<double>(key));
                }
                const double most = *std::max_element(scores.begin(), scores.end());
                double sum = 0;
                for (double& score : scores)
                    sum += score = std::exp(score - most);
                for (size_t q = 0; q <= p; ++q)
                    for (size_t i = 0; i < value; ++i)
                        mixed[h * value + i] += scores[q] / sum * values[q][h / group * value + i];
            }
            const Vector out = weights.times(at + "attn_output", mixed);
            for (size_t i = 0; i < hidden; ++i)
                x[p][i] += out[i];
            const Vector y = weights.norm(at + "ffn_norm", x[p], config.norm_eps);
            const Vector down = config.experts.count > 0 ? mixture(weights, at, y, config.experts)
                                                         : gated(y, [&](const char* name, const Vector& in) {
                                                               return weights.times(at + "ffn_" + name, in);
                                                           });
            for (size_t i = 0; i < hidden; ++i)
                x[p][i] += down[i];
        }
    }

    std::vector<double> logits;
    for (const Vector& row : x) {
        const Vector y = weights.norm("output_norm", row, config.norm_eps);
        const Vector out = weights.times(weights.has("output.weight") ? "output" : "token_embd", y);
        logits.insert(logits.end(), out.begin(), out.end());
    }
    return logits;
}

} // namespace orrery::test
