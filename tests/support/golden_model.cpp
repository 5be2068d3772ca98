#include "tests/support/golden_model.h"

#include "engine/model/gguf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>

namespace orrery::test {

namespace fs = std::filesystem;

namespace {

struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
};

/// All tensors of a safetensors file of bfloat16: a length in eight bytes, a JSON header with shapes and
/// offsets, the data.
std::map<std::string, Tensor> read_safetensors(const fs::path& path) {
    const std::string content = read_file(path);
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, content.data(), sizeof header_bytes);
    const auto header = nlohmann::json::parse(content.substr(8, header_bytes));
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__")
            continue;
        if (entry.at("dtype") != "BF16")
            throw std::runtime_error(path.string() + ": " + name + " is not BF16");
        Tensor tensor;
        entry.at("shape").get_to(tensor.shape);
        const size_t begin = entry.at("data_offsets")[0], end = entry.at("data_offsets")[1];
        for (size_t at = begin; at < end; at += 2) {
            uint16_t bits = 0;
            std::memcpy(&bits, content.data() + 8 + header_bytes + at, sizeof bits);
            tensor.values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
        }
        tensors.emplace(name, std::move(tensor));
    }
    return tensors;
}

/// The names of a layer's tensors in Hugging Face's files and in llama.cpp's.
const std::map<std::string, std::string> layer_names = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"mlp.gate", "ffn_gate_inp"},
};
const std::map<std::string, std::string> expert_names = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"}};

/// The file's name for a tensor that is no expert's.
std::string gguf_name(const std::string& name) {
    const size_t dot = name.rfind('.');
    const std::string module = name.substr(0, dot), kind = name.substr(dot);
    if (module == "model.embed_tokens")
        return "token_embd" + kind;
    if (module == "model.norm")
        return "output_norm" + kind;
    if (module == "lm_head")
        return "output" + kind;
    const std::string layers = "model.layers.";
    const size_t number_end = name.find('.', layers.size());
    return "blk." + name.substr(layers.size(), number_end - layers.size()) + "." +
           layer_names.at(module.substr(number_end + 1)) + kind;
}

/// Experts, whose matrices are one tensor [experts, rows, columns] in GGUF files.
void write_experts(const std::map<std::string, Tensor>& tensors, int layers, int experts, GgufWriter& file) {
    for (int layer = 0; layer < layers; ++layer)
        for (const auto& [theirs, ours] : expert_names) {
            Tensor all;
            for (int expert = 0; expert < experts; ++expert) {
                const Tensor& one = tensors.at("model.layers." + std::to_string(layer) + ".mlp.experts." +
                                               std::to_string(expert) + "." + theirs + ".weight");
                all.shape = {experts, one.shape.at(0), one.shape.at(1)};
                all.values.insert(all.values.end(), one.values.begin(), one.values.end());
            }
            file.tensor("blk." + std::to_string(layer) + "." + ours + ".weight", all.shape, all.values);
        }
}

/// All of these models have the vocabulary of llama.gguf.
void write_vocabulary(GgufWriter& file) {
    const auto llama = GgufFile::open(data_dir() / "golden_gguf/llama.gguf");
    std::vector<int32_t> types;
    for (const int64_t type : llama->get_ints("tokenizer.ggml.token_type"))
        types.push_back(static_cast<int32_t>(type));
    file.string("tokenizer.ggml.model", llama->get_string("tokenizer.ggml.model"))
        .string("tokenizer.ggml.pre", llama->get_string("tokenizer.ggml.pre"))
        .strings("tokenizer.ggml.tokens", llama->get_strings("tokenizer.ggml.tokens"))
        .strings("tokenizer.ggml.merges", llama->get_strings("tokenizer.ggml.merges"))
        .i32s("tokenizer.ggml.token_type", types);
}

/// Neither family's queries and keys are permuted: pairs that are rotated stay half a head apart.
GgufWriter convert(const std::string& name) {
    const fs::path folder = data_dir() / "golden" / name;
    const auto config = read_json(folder / "config.json");
    const std::string architecture = config.at("model_type");
    if (architecture != "phi3" && architecture != "olmoe")
        throw std::runtime_error("no GGUF file of " + name + ", and no conversion of " + architecture);
    const auto number = [&](const char* key) { return config.at(key).get<uint32_t>(); };
    const auto at = [&](const char* field) { return architecture + "." + field; };
    GgufWriter file;
    file.string("general.architecture", architecture)
        .string("general.name", name)
        .u32(at("block_count"), number("num_hidden_layers"))
        .u32(at("context_length"), number("max_position_embeddings"))
        .u32(at("embedding_length"), number("hidden_size"))
        .u32(at("feed_forward_length"), number("intermediate_size"))
        .u32(at("attention.head_count"), number("num_attention_heads"))
        .u32(at("attention.head_count_kv"), number("num_key_value_heads"))
        .f32(at("attention.layer_norm_rms_epsilon"), config.at("rms_norm_eps"))
        .u32(at("rope.dimension_count"), number("hidden_size") / number("num_attention_heads"))
        .f32(at("rope.freq_base"), config.at("rope_parameters").at("rope_theta"));
    write_vocabulary(file);
    const auto tensors = read_safetensors(folder / "model.safetensors");
    if (config.contains("num_experts")) {
        file.u32(at("expert_count"), number("num_experts"))
            .u32(at("expert_used_count"), number("num_experts_per_tok"));
        write_experts(tensors, config.at("num_hidden_layers"), config.at("num_experts"), file);
    }
    for (const auto& [theirs, tensor] : tensors)
        if (theirs.find(".experts.") == std::string::npos)
            file.tensor(gguf_name(theirs), tensor.shape, tensor.values);
    return file;
}

} // namespace

fs::path golden_model(const std::string& name) {
    const fs::path there = data_dir() / "golden_gguf" / (name + ".gguf");
    if (fs::is_regular_file(there))
        return there;
    static const TemporaryFolder folder;
    const fs::path made = folder / (name + ".gguf");
    if (!fs::is_regular_file(made))
        convert(name).write(made);
    return made;
}

Golden golden(const std::string& name) {
    const auto json = read_json(data_dir() / "golden" / name / "golden.json");
    return {json.at("input_ids"), floats_from_base64(json.at("logits_f32_le_base64")), json.at("greedy"),
            json.at("greedy_margin")};
}

} // namespace orrery::test
