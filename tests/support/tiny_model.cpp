#include "tests/support/tiny_model.h"

#include "kernels/quant/half.h"
#include "tests/support/temporary_folder.h"

#include <cmath>
#include <cstdio>
#include <mutex>
#include <random>
#include <stdexcept>

namespace orrery::test {

using kernels::TensorType;

namespace {

const char* const chat_template =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' "
    "+ '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::string utf8(uint32_t point) {
    if (point < 0x80)
        return {static_cast<char>(point)};
    return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
}

/// The characters that stand for bytes in a byte-level vocabulary (Radford et al. 2019): printable bytes
/// stand for themselves, the others for the characters from 256 on.
std::vector<std::string> byte_names() {
    std::vector<std::string> names;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        names.push_back(utf8(printable ? byte : next++));
    }
    return names;
}

/// Numbers that are the same with every standard library, whose distributions are free to differ.
class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint64_t bits() { return engine_(); }
    /// Uniform in (-1, 1).
    float signed_unit() {
        return static_cast<float>(static_cast<int64_t>(bits() >> 11) - (int64_t{1} << 52)) * 0x1p-52f;
    }

private:
    std::mt19937_64 engine_;
};

/// A matrix whose weights have a root mean square of about `spread`.
std::vector<std::byte> matrix(Random& random, TensorType type, int64_t rows, int64_t columns, float spread) {
    const auto elements = static_cast<size_t>(rows * columns);
    const kernels::TensorTypeInfo& layout = kernels::info(type);
    if (columns % layout.block_elements != 0)
        throw std::runtime_error("a tiny model's rows have to be multiples of the weight format's block");
    const float width = spread * std::sqrt(3.0f); // uniform in (-1, 1) has a root mean square of 1/√3
    if (type != TensorType::Q4_K && type != TensorType::Q6_K) {
        std::vector<float> values(elements);
        for (float& value : values)
            value = width * random.signed_unit();
        std::vector<std::byte> out(kernels::row_bytes(type, elements));
        kernels::encode(type, values.data(), out.data(), elements);
        return out;
    }

    // These have no encoder: blocks of random quants and scales, under a factor that gives the weights
    // their width.
    std::vector<std::byte> out;
    const auto put_half = [&](float value) {
        const uint16_t bits = kernels::f32_to_f16(value);
        out.push_back(static_cast<std::byte>(bits & 0xff));
        out.push_back(static_cast<std::byte>(bits >> 8));
    };
    const auto put_random = [&](int count) {
        for (int i = 0; i < count; ++i)
            out.push_back(static_cast<std::byte>(random.bits() & 0xff));
    };
    for (size_t block = 0; block < elements / layout.block_elements; ++block) {
        if (type == TensorType::Q4_K) { // d · scale · (0 … 15) − dmin · min; scale and min 0 … 63
            put_half(width / (7.5f * 36));
            put_half(width / 36);
            put_random(12 + 128);
        } else { // d · scale · (−32 … 31); scale −128 … 127
            put_random(128 + 64 + 16);
            put_half(width / (32 * 74));
        }
    }
    return out;
}

std::vector<float> vector(Random& random, int64_t size, float centre, float width) {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values)
        value = centre + width * random.signed_unit();
    return values;
}

} // namespace

GgufWriter tiny_model_writer(const TinyModelOptions& o) {
    const int head = o.key_length ? o.key_length : o.hidden / o.heads;
    std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    std::vector<int32_t> kinds = {3, 3, 3};
    for (const std::string& name : byte_names()) {
        tokens.push_back(name);
        kinds.push_back(1);
    }
    const std::string space = byte_names()[' '];
    const std::vector<std::pair<std::string, std::string>> pairs = {
        {"h", "e"},   {"t", "he"}, {space, "t"}, {space + "t", "he"}, {"i", "n"},
        {"a", "n"},   {"o", "n"},  {space, "a"}, {"e", "r"},          {"r", "e"},
        {space, "w"}, {"l", "l"},  {"he", "ll"}, {"hell", "o"}};
    std::vector<std::string> merges;
    for (const auto& [left, right] : pairs) {
        merges.push_back(left + " " + right);
        tokens.push_back(left + right);
        kinds.push_back(1);
    }
    const auto vocab = static_cast<int64_t>(tokens.size());
    std::vector<float> scores;
    if (o.sentencepiece) {
        const std::vector<std::string> pieces = {"▁",  "a",  "e",   "h",    "t",   "o",  "n",
                                                 "▁a", "▁t", "▁th", "▁the", "▁an", "he", "on"};
        tokens = {"<unk>", "<s>", "</s>"};
        kinds = {2, 3, 3};
        for (int byte = 0; byte < 256; ++byte) {
            char name[8];
            std::snprintf(name, sizeof name, "<0x%02X>", byte);
            tokens.push_back(name);
            kinds.push_back(6);
        }
        for (const std::string& piece : pieces) {
            tokens.push_back(piece);
            kinds.push_back(1);
        }
        for (size_t i = 0; i < tokens.size(); ++i)
            scores.push_back(-static_cast<float>(i));
    }

    GgufWriter file;
    file.string("general.architecture", "llama")
        .string("general.name", "Tiny random llama")
        .u32("llama.block_count", static_cast<uint32_t>(o.layers))
        .u32("llama.context_length", static_cast<uint32_t>(o.context_length))
        .u32("llama.embedding_length", static_cast<uint32_t>(o.hidden))
        .u32("llama.feed_forward_length", static_cast<uint32_t>(o.feed_forward))
        .u32("llama.attention.head_count", static_cast<uint32_t>(o.heads))
        .u32("llama.attention.head_count_kv", static_cast<uint32_t>(o.kv_heads))
        .u32("llama.attention.key_length", static_cast<uint32_t>(head))
        .u32("llama.attention.value_length", static_cast<uint32_t>(head))
        .u32("llama.rope.dimension_count", static_cast<uint32_t>(head))
        .f32("llama.rope.freq_base", 10000.0f)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
        .u32("llama.vocab_size", static_cast<uint32_t>(vocab))
        .string("tokenizer.ggml.model", o.sentencepiece ? "llama" : "gpt2")
        .string("tokenizer.ggml.pre", o.sentencepiece ? "default" : "gpt-2")
        .strings("tokenizer.ggml.tokens", tokens)
        .i32s("tokenizer.ggml.token_type", kinds)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .u32("tokenizer.ggml.padding_token_id", 2)
        .boolean("tokenizer.ggml.add_bos_token", o.sentencepiece);
    if (o.sentencepiece)
        file.f32s("tokenizer.ggml.scores", scores);
    else
        file.strings("tokenizer.ggml.merges", merges);
    if (o.window > 0)
        file.u32("llama.attention.sliding_window", static_cast<uint32_t>(o.window));
    if (o.experts > 0)
        file.u32("llama.expert_count", static_cast<uint32_t>(o.experts))
            .u32("llama.expert_used_count", static_cast<uint32_t>(o.experts_used));
    if (o.chat_template)
        file.string("tokenizer.chat_template", chat_template);

    Random random(o.seed);
    const auto add_matrix = [&](const std::string& name, int64_t rows, int64_t columns, float gain) {
        file.tensor(name, {rows, columns}, o.weights,
                    matrix(random, o.weights, rows, columns, gain / std::sqrt(static_cast<float>(columns))));
    };
    const auto add_matrices = [&](const std::string& name, int64_t rows, int64_t columns, float gain) {
        file.tensor(name, {o.experts, rows, columns}, o.weights,
                    matrix(random, o.weights, o.experts * rows, columns,
                           gain / std::sqrt(static_cast<float>(columns))));
    };
    const auto add_vector = [&](const std::string& name, int64_t size, float centre, float width) {
        file.tensor(name, {size}, vector(random, size, centre, width));
    };
    // An embedding of unit size per element; every block adds about as much again, so that each layer and
    // each earlier token counts; logits with a spread of about 4, so that the likeliest token stands out.
    file.tensor("token_embd.weight", {vocab, o.hidden}, o.weights,
                matrix(random, o.weights, vocab, o.hidden,
                       o.tied ? 4 / std::sqrt(static_cast<float>(o.hidden)) : 1.0f));
    for (int layer = 0; layer < o.layers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        add_vector(block + "attn_norm.weight", o.hidden, 1.0f, 0.2f);
        add_matrix(block + "attn_q.weight", o.heads * head, o.hidden, 1.5f);
        add_matrix(block + "attn_k.weight", o.kv_heads * head, o.hidden, 1.5f);
        add_matrix(block + "attn_v.weight", o.kv_heads * head, o.hidden, 1.0f);
        add_matrix(block + "attn_output.weight", o.hidden, o.heads * head, 1.5f);
        if (o.biases) {
            add_vector(block + "attn_q.bias", o.heads * head, 0.0f, 0.5f);
            add_vector(block + "attn_k.bias", o.kv_heads * head, 0.0f, 0.5f);
            add_vector(block + "attn_v.bias", o.kv_heads * head, 0.0f, 0.5f);
            add_vector(block + "attn_output.bias", o.hidden, 0.0f, 0.5f);
        }
        add_vector(block + "ffn_norm.weight", o.hidden, 1.0f, 0.2f);
        if (o.experts > 0) {
            add_matrix(block + "ffn_gate_inp.weight", o.experts, o.hidden, 1.5f);
            add_matrices(block + "ffn_gate_exps.weight", o.feed_forward, o.hidden, 1.5f);
            add_matrices(block + "ffn_up_exps.weight", o.feed_forward, o.hidden, 1.5f);
            add_matrices(block + "ffn_down_exps.weight", o.hidden, o.feed_forward, 1.0f);
            continue;
        }
        add_matrix(block + "ffn_gate.weight", o.feed_forward, o.hidden, 1.5f);
        add_matrix(block + "ffn_up.weight", o.feed_forward, o.hidden, 1.5f);
        add_matrix(block + "ffn_down.weight", o.hidden, o.feed_forward, 1.0f);
    }
    add_vector("output_norm.weight", o.hidden, 1.0f, 0.2f);
    if (!o.tied)
        add_matrix("output.weight", vocab, o.hidden, 4.0f);
    return file;
}

std::filesystem::path tiny_model(const TinyModelOptions& options) {
    static std::mutex mutex;
    static const TemporaryFolder folder;
    static std::vector<TinyModelOptions> made;
    const std::lock_guard lock(mutex);
    size_t index = 0;
    while (index < made.size() && !(made[index] == options))
        ++index;
    const std::filesystem::path path = folder / ("tiny-" + std::to_string(index) + ".gguf");
    if (index == made.size()) {
        tiny_model_writer(options).write(path);
        made.push_back(options);
    }
    return path;
}

} // namespace orrery::test
