#include "engine/model/architecture.h"

#include <algorithm>
#include <array>

namespace orrery {

namespace {

using kernels::ActivationKind;
using kernels::NormKind;
using enum kernels::RopeStyle;

constexpr FieldNames layer_norm_fields = {.norm_eps = "attention.layer_norm_epsilon"};

constexpr std::array architectures = {
    // Llama 1–3, TinyLlama, SmolLM 1 and 2, Mistral 7B, Mixtral: the converter has permuted the rows of query
    // and key so that pairs of neighbours are rotated.
    Architecture{.name = "llama", .normalize_experts = true},
    Architecture{.name = "qwen2", .rope_style = halves},
    Architecture{.name = "qwen3", .head_norm = HeadNorm::head, .rope_style = halves},
    Architecture{.name = "gemma2",
                 .norm_place = NormPlace::both,
                 .scaled_embedding = true,
                 .rope_style = halves,
                 .window = 4096,
                 .full_every = 2,
                 .attention_soft_cap = 50.0f,
                 .logit_soft_cap = 30.0f,
                 .hidden_scale_layers = 46, // 27B
                 .activation = ActivationKind::gelu_tanh},
    Architecture{.name = "gemma3",
                 .norm_place = NormPlace::both,
                 .head_norm = HeadNorm::head,
                 .scaled_embedding = true,
                 .rope_style = halves,
                 .window_rope_base = 10000.0,
                 .full_every = 6,
                 .hidden_scale_layers = 62, // 27B
                 .activation = ActivationKind::gelu_tanh},
    Architecture{.name = "phi3", .rope_style = halves},
    Architecture{.name = "gpt2",
                 .norm = NormKind::layer,
                 .positions = Positions::learned,
                 .activation = ActivationKind::gelu_tanh,
                 .gated = false,
                 .fields = layer_norm_fields},
    Architecture{.name = "granite", .logits_divided = true},
    Architecture{.name = "olmoe", .head_norm = HeadNorm::row, .rope_style = halves},
    Architecture{.name = "qwen2moe", .rope_style = halves},
    Architecture{
        .name = "qwen3moe", .head_norm = HeadNorm::head, .rope_style = halves, .normalize_experts = true},
    Architecture{.name = "starcoder2",
                 .norm = NormKind::layer,
                 .rope_style = halves,
                 .activation = ActivationKind::gelu_tanh,
                 .gated = false,
                 .fields = layer_norm_fields},
    Architecture{
        .name = "stablelm", .norm = NormKind::layer, .rope_style = halves, .fields = layer_norm_fields},
    Architecture{.name = "nemotron",
                 .norm = NormKind::layer,
                 .rope_style = halves,
                 .activation = ActivationKind::relu2,
                 .gated = false,
                 .fields = layer_norm_fields},
    Architecture{.name = "granitemoe", .logits_divided = true, .normalize_experts = true},
    // OLMo 2 and, with a window, OLMo 3.
    Architecture{.name = "olmo2",
                 .norm_place = NormPlace::after,
                 .head_norm = HeadNorm::row,
                 .rope_style = halves,
                 .full_every = 4},
    Architecture{.name = "cohere2",
                 .norm = NormKind::layer,
                 .parallel_residual = true,
                 .rope_layers = RopeLayers::windowed,
                 .full_every = 4,
                 .fields = layer_norm_fields},
    Architecture{.name = "smollm3", .rope_layers = RopeLayers::not_every_fourth},
    Architecture{
        .name = "seed_oss", .rope_style = halves, .tensors = {.feed_forward_norm = "post_attention_norm"}},
    Architecture{.name = "hunyuan-dense",
                 .head_norm = HeadNorm::head,
                 .head_norm_after_rope = true,
                 .rope_style = halves},
    Architecture{.name = "ernie4_5"},
    Architecture{.name = "glm4", .norm_place = NormPlace::both},
};

} // namespace

const Architecture* find_architecture(std::string_view name) {
    const auto* it = std::ranges::find(architectures, name, &Architecture::name);
    return it == architectures.end() ? nullptr : &*it;
}

std::string architecture_names() {
    std::string names;
    for (const Architecture& architecture : architectures)
        names += (names.empty() ? "" : ", ") + std::string(architecture.name);
    return names;
}

} // namespace orrery
