#include "tests/support/naive_llama.h"

#include <algorithm>
#include <cmath>
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

/// Turns the pairs (x0, x1), (x2, x3), … of one head.
void turn(double* head, const RopeConfig& rope, size_t position) {
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

} // namespace

std::vector<double> naive_llama(const GgufFile& file, const ModelConfig& config,
                                const std::vector<int32_t>& ids) {
    const Weights weights(file);
    const auto hidden = static_cast<size_t>(config.hidden), heads = static_cast<size_t>(config.heads),
               group = heads / static_cast<size_t>(config.kv_heads),
               key = static_cast<size_t>(config.key_length), value = static_cast<size_t>(config.value_length);

    const Vector table = weights.all("token_embd.weight");
    std::vector<Vector> x;
    for (const int32_t id : ids) {
        const auto row = table.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(id) * hidden);
        x.emplace_back(row, row + static_cast<ptrdiff_t>(hidden));
    }

    for (int layer = 0; layer < config.layers; ++layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        std::vector<Vector> queries, keys, values;
        for (size_t p = 0; p < x.size(); ++p) {
            const Vector y = weights.norm(at + "attn_norm", x[p], config.norm_eps);
            queries.push_back(weights.times(at + "attn_q", y));
            keys.push_back(weights.times(at + "attn_k", y));
            values.push_back(weights.times(at + "attn_v", y));
            for (size_t h = 0; h < heads; ++h)
                turn(&queries[p][h * key], config.rope, p);
            for (size_t h = 0; h < heads / group; ++h)
                turn(&keys[p][h * key], config.rope, p);
        }
        for (size_t p = 0; p < x.size(); ++p) {
            Vector mixed(heads * value);
            for (size_t h = 0; h < heads; ++h) {
                Vector scores(p + 1);
                for (size_t q = 0; q <= p; ++q) {
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
            Vector gate = weights.times(at + "ffn_gate", y);
            const Vector up = weights.times(at + "ffn_up", y);
            for (size_t i = 0; i < gate.size(); ++i)
                gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
            const Vector down = weights.times(at + "ffn_down", gate);
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
