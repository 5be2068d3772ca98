#include "engine/model/config.h"

#include "engine/model/architecture.h"
#include "engine/model/gguf.h"
#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <cmath>
#include <sstream>

namespace orrery {

namespace {

// Far beyond any model, and small enough that products of two of them fit an int64_t, and that heads ·
// key_length and 2 · feed_forward fit an int.
constexpr int max_layers = 4096;
constexpr int max_hidden = 1 << 20;
constexpr int max_heads = 1 << 14;
constexpr int max_head_length = 1 << 14;
constexpr int max_feed_forward = 1 << 24;
constexpr int max_vocab = 1 << 24;
constexpr int max_context = 1 << 30;

std::string number_text(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

/// Fields of one architecture, "llama.block_count" as "block_count".
class Fields {
public:
    Fields(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {
        prefix_ += '.';
    }

    std::string key(const std::string& field) const { return prefix_ + field; }
    bool has(const std::string& field) const { return file_.find(key(field)) != nullptr; }

    [[noreturn]] void fail(const std::string& sentence) const {
        throw Error(platform::to_utf8(file_.path()) + ": " + sentence);
    }

    int checked(const std::string& field, int64_t value, int least, int most) const {
        if (value < least || value > most)
            fail("the field '" + key(field) + "' is " + std::to_string(value) + "; it has to be from " +
                 std::to_string(least) + " to " + std::to_string(most) + ".");
        return static_cast<int>(value);
    }

    int integer(const std::string& field, int least, int most) const {
        return checked(field, file_.get_int(key(field)), least, most);
    }

    int integer(const std::string& field, int least, int most, int otherwise) const {
        return has(field) ? integer(field, least, most) : otherwise;
    }

    /// A field that is one number, or one for each layer, which then all have to be equal.
    int of_all_layers(const std::string& field, int layers, int least, int most) const {
        const std::vector<int64_t> values = file_.get_ints(key(field));
        if (values.empty())
            return integer(field, least, most); // says that it is missing
        if (values.size() != 1 && values.size() != static_cast<size_t>(layers))
            fail("the field '" + key(field) + "' has " + grouped(values.size()) +
                 " numbers, but the model has " + std::to_string(layers) + " layers.");
        for (const int64_t value : values)
            if (value != values.front())
                fail("the field '" + key(field) + "' differs between layers (" +
                     std::to_string(values.front()) + " and " + std::to_string(value) +
                     "), which this program does not run yet.");
        return checked(field, values.front(), least, most);
    }

    double positive(const std::string& field, double otherwise) const {
        const double value = file_.get_float(key(field), otherwise);
        if (!std::isfinite(value) || value <= 0)
            fail("the field '" + key(field) + "' is " + number_text(value) +
                 "; it has to be a positive number.");
        return value;
    }

    const GgufFile& file() const { return file_; }

private:
    const GgufFile& file_;
    std::string prefix_;
};

/// Things that change the arithmetic and are not built: better refused than answered wrongly.
void refuse_what_is_not_built(const Fields& fields, int context) {
    if (const int experts = fields.integer("expert_count", 0, 1 << 20, 0); experts > 0)
        fields.fail("the model is a mixture of " + std::to_string(experts) +
                    " experts, which this program does not run yet.");
    const int window = fields.integer("attention.sliding_window", 0, max_context, 0);
    if (window > 0 && window < context)
        fields.fail("the model's attention slides in a window of " + grouped(static_cast<uint64_t>(window)) +
                    " tokens, which this program does not run yet.");
    if (!fields.file().get_bool(fields.key("attention.causal"), true))
        fields.fail("the model's attention is not causal: it makes embeddings, not text.");
}

std::vector<float> frequency_factors(const Fields& fields, int dimensions) {
    const GgufTensor* tensor = fields.file().find_tensor("rope_freqs.weight");
    if (!tensor)
        return {};
    if (tensor->shape != std::vector<int64_t>{dimensions / 2} || tensor->type != kernels::TensorType::F32)
        fields.fail("the tensor 'rope_freqs.weight' has the shape " + shape_text(tensor->shape) +
                    " and the type " + kernels::info(tensor->type).name + "; [" +
                    std::to_string(dimensions / 2) + "] and F32 are needed.");
    std::vector<float> factors(static_cast<size_t>(dimensions / 2));
    kernels::decode(tensor->type, tensor->bytes.data(), factors.data(), factors.size());
    for (const float factor : factors)
        if (!std::isfinite(factor) || factor <= 0)
            fields.fail("the tensor 'rope_freqs.weight' holds " + number_text(factor) +
                        "; it has to hold positive numbers.");
    return factors;
}

RopeConfig read_rope(const Fields& fields, const Architecture& architecture, int key_length) {
    RopeConfig rope;
    rope.style = architecture.rope_style;
    rope.dimensions = fields.integer("rope.dimension_count", 0, key_length, key_length);
    if (rope.dimensions % 2 != 0)
        fields.fail("the field '" + fields.key("rope.dimension_count") + "' is " +
                    std::to_string(rope.dimensions) +
                    "; elements of a head are turned in pairs, so it has to be even.");
    rope.base = fields.positive("rope.freq_base", 10000.0);

    // Files without a type mean linear scaling where they give a factor; a factor of 0 means none.
    const std::string type = fields.file().get_string(fields.key("rope.scaling.type"), "linear");
    const std::string factor =
        fields.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    if (type == "linear") {
        if (fields.has(factor) && fields.file().get_float(fields.key(factor)) != 0)
            rope.linear_factor = fields.positive(factor, 1.0);
    } else if (type != "none") {
        fields.fail("the field '" + fields.key("rope.scaling.type") + "' is '" + type +
                    "'; this program runs 'none' and 'linear', and Llama 3's scaling.");
    }
    rope.frequency_factors = frequency_factors(fields, rope.dimensions);
    return rope;
}

int read_vocab(const Fields& fields, int hidden) {
    const size_t tokens = fields.file().get_strings("tokenizer.ggml.tokens").size();
    if (tokens > static_cast<size_t>(max_vocab))
        fields.fail("the vocabulary has " + grouped(tokens) + " tokens; at most " +
                    grouped(static_cast<uint64_t>(max_vocab)) + " are allowed.");
    const GgufTensor* table = fields.file().find_tensor("token_embd.weight");
    if (!table) // a file that holds only a vocabulary
        return fields.integer("vocab_size", 1, max_vocab, static_cast<int>(tokens));
    if (table->shape.size() != 2 || table->shape[1] != hidden || table->shape[0] > max_vocab)
        fields.fail("the tensor 'token_embd.weight' has the shape " + shape_text(table->shape) +
                    "; [vocabulary, " + std::to_string(hidden) + "] is needed.");
    const int rows = static_cast<int>(table->shape[0]);
    if (const int stated = fields.integer("vocab_size", 1, max_vocab, rows); stated != rows)
        fields.fail("the field '" + fields.key("vocab_size") + "' is " + std::to_string(stated) +
                    ", but the tensor 'token_embd.weight' has " + std::to_string(rows) + " rows.");
    if (tokens > static_cast<size_t>(rows))
        fields.fail("the vocabulary has " + grouped(tokens) +
                    " tokens, but the tensor 'token_embd.weight' has only " +
                    grouped(static_cast<uint64_t>(rows)) + " rows.");
    return rows;
}

} // namespace

ModelConfig read_config(const GgufFile& file) {
    ModelConfig config;
    config.architecture = file.get_string("general.architecture");
    const Architecture* architecture = find_architecture(config.architecture);
    const Fields fields(file, config.architecture);
    if (!architecture)
        fields.fail("the model's architecture is '" + config.architecture + "'; this program runs " +
                    architecture_names() + ".");
    config.name = file.get_string("general.name", platform::to_utf8(file.path().stem()));

    config.layers = fields.integer("block_count", 1, max_layers);
    config.hidden = fields.integer("embedding_length", 1, max_hidden);
    config.context_length = fields.integer("context_length", 1, max_context);
    refuse_what_is_not_built(fields, config.context_length);
    config.feed_forward = fields.of_all_layers("feed_forward_length", config.layers, 1, max_feed_forward);
    config.heads = fields.of_all_layers("attention.head_count", config.layers, 1, max_heads);
    config.kv_heads = fields.has("attention.head_count_kv")
                          ? fields.of_all_layers("attention.head_count_kv", config.layers, 1, max_heads)
                          : config.heads;
    if (config.heads % config.kv_heads != 0)
        fields.fail("the model has " + std::to_string(config.heads) + " query heads and " +
                    std::to_string(config.kv_heads) +
                    " key/value heads; the first has to be a multiple of the second.");

    const auto head_length = [&](const std::string& field) {
        if (!fields.has(field) && config.hidden % config.heads != 0)
            fields.fail("the field '" + fields.key(field) + "' is missing, and the embedding length, " +
                        std::to_string(config.hidden) + ", cannot be divided among " +
                        std::to_string(config.heads) + " heads.");
        return fields.checked(field, fields.integer(field, 1, max_head_length, config.hidden / config.heads),
                              1, max_head_length);
    };
    config.key_length = head_length("attention.key_length");
    config.value_length = head_length("attention.value_length");

    config.norm_eps = static_cast<float>(fields.positive(
        "attention.layer_norm_rms_epsilon", file.get_float(fields.key("attention.layer_norm_rms_epsilon"))));
    config.rope = read_rope(fields, *architecture, config.key_length);
    config.vocab = read_vocab(fields, config.hidden);
    return config;
}

} // namespace orrery
