#include "engine/model/config.h"

#include "engine/model/fields.h"
#include "engine/model/gguf.h"
#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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
constexpr int max_experts = 1 << 16;

/// What would change the arithmetic and is not built: better refused than answered wrongly.
void refuse_what_is_not_built(const Fields& fields) {
    if (!fields.boolean("attention.causal", true))
        fields.fail("the field '" + fields.key("attention.causal") +
                    "' is false: the model makes embeddings, not text.");
    if (const int groups = fields.integer("expert_group_count", 0, max_experts, 0); groups > 1)
        fields.fail("the field '" + fields.key("expert_group_count") + "' is " + std::to_string(groups) +
                    "; this program runs experts in a single group.");
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
        if (fields.file().find_tensor(name))
            fields.fail("the tensor '" + std::string(name) +
                        "' belongs to LongRoPE; this program runs rotations without scaling, with linear "
                        "scaling, and with Llama 3's.");
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

/// The rotation of a layer. One with a window may have its own.
RopeConfig read_rope(const Fields& fields, const Architecture& traits, int key_length, bool windowed) {
    const bool own = windowed && (traits.window_rope_base > 0 || fields.has("rope.freq_base_swa"));
    const char* const dimensions = windowed && fields.has("rope.dimension_count_swa")
                                       ? "rope.dimension_count_swa"
                                       : "rope.dimension_count";
    RopeConfig rope;
    rope.dimensions = fields.integer(dimensions, 0, key_length, key_length);
    if (rope.dimensions % 2 != 0)
        fields.fail("the field '" + fields.key(dimensions) + "' is " + std::to_string(rope.dimensions) +
                    "; elements of a head are rotated in pairs, so it has to be even.");
    rope.base = own ? fields.positive("rope.freq_base_swa", traits.window_rope_base)
                    : fields.positive("rope.freq_base", 10000.0);

    // Files without a type mean linear scaling where they give a factor; a factor of 0 means none.
    const std::string type = fields.file().get_string(fields.key("rope.scaling.type"), "linear");
    if (type != "linear" && type != "none")
        fields.fail("the field '" + fields.key("rope.scaling.type") + "' is '" + type +
                    "'; this program runs 'none' and 'linear', and Llama 3's scaling.");
    if (own)
        return rope;
    if (type == "linear")
        rope.linear_factor = fields.positive_or_none(
            fields.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", 1.0);
    rope.frequency_factors = frequency_factors(fields, rope.dimensions);
    return rope;
}

/// Which layers see a window, where the model has one.
std::vector<bool> windowed_layers(const Fields& fields, const Architecture& traits, int layers) {
    constexpr std::string_view field = "attention.sliding_window_pattern";
    std::vector<bool> windowed(static_cast<size_t>(layers), true);
    int full_every = traits.full_every;
    if (const auto stated = fields.file().get_bools(fields.key(field)); !stated.empty()) {
        if (stated.size() != windowed.size())
            fields.fail("the field '" + fields.key(field) + "' has " + grouped(stated.size()) +
                        " entries, but the model has " + std::to_string(layers) + " layers.");
        return stated;
    }
    full_every = fields.integer(field, 0, max_layers, full_every);
    for (int i = full_every; full_every > 0 && i <= layers; i += full_every)
        windowed[static_cast<size_t>(i - 1)] = false;
    return windowed;
}

bool is_rotated(const Architecture& traits, int layer, bool windowed) {
    if (traits.positions != Positions::rotary)
        return false;
    switch (traits.rope_layers) {
    case RopeLayers::all:
        return true;
    case RopeLayers::windowed:
        return windowed;
    case RopeLayers::not_every_fourth:
        return (layer + 1) % 4 != 0;
    }
    return true;
}

/// The entry of `list` that is equal to `entry`, which is added where there is none.
template <typename T>
int index_of(std::vector<T>& list, const T& entry) {
    const auto found = std::ranges::find(list, entry);
    const auto index = static_cast<int>(found - list.begin());
    if (found == list.end())
        list.push_back(entry);
    return index;
}

int add_rope(const RopeConfig& rope, std::vector<RopeConfig>& ropes) {
    return rope.dimensions > 0 ? index_of(ropes, rope) : -1;
}

int head_length(const Fields& fields, std::string_view field, bool windowed, int hidden, int heads) {
    if (const std::string of_window = std::string(field) + "_swa"; windowed && fields.has(of_window))
        return fields.integer(of_window, 1, max_head_length);
    if (!fields.has(field) && hidden % heads != 0)
        fields.fail("the field '" + fields.key(field) + "' is missing, and the embedding length, " +
                    std::to_string(hidden) + ", cannot be divided among " + std::to_string(heads) +
                    " heads.");
    return fields.checked(field, fields.integer(field, 1, max_head_length, hidden / heads), 1,
                          max_head_length);
}

void read_layers(const Fields& fields, const Architecture& traits, ModelConfig& config) {
    const int count = fields.integer("block_count", 1, max_layers);
    const auto feed_forward = fields.per_layer("feed_forward_length", count, 1, max_feed_forward);
    const auto heads = fields.per_layer("attention.head_count", count, 1, max_heads);
    const auto kv_heads = fields.has("attention.head_count_kv")
                              ? fields.per_layer("attention.head_count_kv", count, 1, max_heads)
                              : heads;
    const int window = fields.integer("attention.sliding_window", 0, max_context, traits.window);
    const std::vector<bool> windowed = windowed_layers(fields, traits, count);
    const double scale = fields.positive_or_none("attention.scale", 0.0);

    std::map<std::pair<int, bool>, int> ropes; // of layers with this length and a window or none
    for (int i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        const bool has_window = window > 0 && windowed[at];
        LayerConfig layer;
        layer.heads = heads[at];
        layer.kv_heads = kv_heads[at];
        if (layer.heads % layer.kv_heads != 0)
            fields.fail("the model has " + std::to_string(layer.heads) + " query heads and " +
                        std::to_string(layer.kv_heads) +
                        " key/value heads; the first has to be a multiple of the second.");
        layer.key_length =
            head_length(fields, "attention.key_length", has_window, config.hidden, layer.heads);
        layer.value_length =
            head_length(fields, "attention.value_length", has_window, config.hidden, layer.heads);
        layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(layer.key_length));
        if (count == traits.hidden_scale_layers)
            layer.attention_scale =
                1.0f / std::sqrt(static_cast<float>(config.hidden) / static_cast<float>(layer.heads));
        if (scale > 0)
            layer.attention_scale = static_cast<float>(scale);
        layer.feed_forward = feed_forward[at];
        layer.window = has_window ? window : 0;
        if (is_rotated(traits, i, has_window)) {
            const auto [rope, is_new] = ropes.try_emplace({layer.key_length, has_window}, -1);
            if (is_new)
                rope->second =
                    add_rope(read_rope(fields, traits, layer.key_length, has_window), config.ropes);
            layer.rope = rope->second;
        }
        layer.cache = index_of(config.caches, {0, layer.kv_heads, layer.key_length, layer.value_length});
        layer.cache_layer = config.caches[static_cast<size_t>(layer.cache)].layers++;
        config.layers.push_back(layer);
    }
}

ExpertConfig read_experts(const Fields& fields, const Architecture& traits) {
    ExpertConfig experts;
    experts.count = fields.integer("expert_count", 0, max_experts, 0);
    if (experts.count == 0)
        return experts;
    experts.used = fields.integer("expert_used_count", 1, experts.count);
    experts.score = traits.router;
    if (fields.has("expert_gating_func"))
        experts.score = fields.integer("expert_gating_func", 1, 2) == 1 ? kernels::RouterScore::softmax
                                                                        : kernels::RouterScore::sigmoid;
    experts.normalize = fields.boolean("expert_weights_norm", traits.normalize_experts);
    experts.scale = static_cast<float>(fields.positive_or_none("expert_weights_scale", 1.0));
    return experts;
}

/// A cap that the file states, 0 for none, or its family's.
float read_soft_cap(const Fields& fields, std::string_view field, float otherwise) {
    return fields.has(field) ? static_cast<float>(fields.positive_or_none(field, 0.0)) : otherwise;
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
    config.traits = find_architecture(config.architecture);
    const Fields fields(file, config.architecture);
    if (!config.traits)
        fields.fail("the field 'general.architecture' is '" + config.architecture + "'; this program runs " +
                    architecture_names() + ".");
    const Architecture& traits = *config.traits;
    config.name = file.get_string("general.name", platform::to_utf8(file.path().stem()));

    config.hidden = fields.integer("embedding_length", 1, max_hidden);
    config.context_length = fields.integer("context_length", 1, max_context);
    refuse_what_is_not_built(fields);
    if (traits.positions == Positions::learned)
        config.max_positions = config.context_length;
    config.norm_eps = static_cast<float>(fields.positive(traits.fields.norm_eps));
    config.parallel_residual = fields.boolean("use_parallel_residual", traits.parallel_residual);
    config.embedding_scale = traits.scaled_embedding
                                 ? std::sqrt(static_cast<float>(config.hidden))
                                 : static_cast<float>(fields.positive_or_none("embedding_scale", 1.0));
    config.residual_scale = static_cast<float>(fields.positive_or_none("residual_scale", 1.0));
    const double logit_scale = fields.positive_or_none("logit_scale", 1.0);
    config.logit_scale = static_cast<float>(traits.logits_divided ? 1.0 / logit_scale : logit_scale);
    config.attention_soft_cap = read_soft_cap(fields, "attn_logit_softcapping", traits.attention_soft_cap);
    config.logit_soft_cap = read_soft_cap(fields, "final_logit_softcapping", traits.logit_soft_cap);
    config.experts = read_experts(fields, traits);
    read_layers(fields, traits, config);
    config.vocab = read_vocab(fields, config.hidden);
    return config;
}

} // namespace orrery
