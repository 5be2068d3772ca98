// The table of model families that can be run, one row each. What a file does not say about its model (how
// heads are rotated, where norms stand) follows from the name of its architecture.
//
// A row is read together with the file: biases, fused projections, experts, a matrix of output weights are
// used where the file has their tensors. docs/architectures.md lists the traits of all families.
#pragma once

#include "kernels/operations.h"

#include <string>
#include <string_view>

namespace orrery {

/// Where the norms of a layer stand.
enum class NormPlace : uint8_t {
    before, ///< of what attention and feed-forward read
    after,  ///< of what they add to the residual stream
    both,
};

/// What a norm of queries and keys extends over.
enum class HeadNorm : uint8_t { none, head, row };

/// How a token's position enters.
enum class Positions : uint8_t { rotary, learned };

/// Which layers rotate queries and keys.
enum class RopeLayers : uint8_t { all, windowed, not_every_fourth };

/// Names of a layer's tensors, after "blk.N." and before ".weight" or ".bias".
struct TensorNames {
    std::string_view attention_norm = "attn_norm";
    std::string_view qkv = "attn_qkv"; ///< or q, k and v each on their own
    std::string_view q = "attn_q";
    std::string_view k = "attn_k";
    std::string_view v = "attn_v";
    std::string_view q_norm = "attn_q_norm";
    std::string_view k_norm = "attn_k_norm";
    std::string_view attention_out = "attn_output";
    std::string_view attention_post_norm = "post_attention_norm";
    std::string_view feed_forward_norm = "ffn_norm";
    std::string_view gate = "ffn_gate";
    std::string_view up = "ffn_up"; ///< also gate and up in one, in this order
    std::string_view down = "ffn_down";
    std::string_view feed_forward_post_norm = "post_ffw_norm";
    std::string_view router = "ffn_gate_inp";
    std::string_view experts_gate = "ffn_gate_exps";
    std::string_view experts_up = "ffn_up_exps";
    std::string_view experts_down = "ffn_down_exps";
    std::string_view shared_expert_router = "ffn_gate_inp_shexp";
    std::string_view shared_expert_gate = "ffn_gate_shexp";
    std::string_view shared_expert_up = "ffn_up_shexp";
    std::string_view shared_expert_down = "ffn_down_shexp";
};

/// Names of metadata fields, after the architecture's name and a '.'.
struct FieldNames {
    std::string_view norm_eps = "attention.layer_norm_rms_epsilon";
};

struct Architecture {
    std::string_view name; ///< as it stands in general.architecture, and before the '.' of its own fields

    // Norms. Weights that a family keeps less 1 (Gemma, Nemotron) are whole in GGUF files.
    kernels::NormKind norm = kernels::NormKind::rms;
    NormPlace norm_place = NormPlace::before;
    HeadNorm head_norm = HeadNorm::none;
    bool head_norm_after_rope = false;

    // The residual stream.
    bool scaled_embedding = false; ///< embeddings are multiplied by √hidden
    /// Attention and feed-forward read the same state of the stream (Wang & Komatsuzaki 2021); the file's
    /// use_parallel_residual decides where it is there. Without a norm of its own, feed-forward shares
    /// attention's.
    bool parallel_residual = false;
    bool logits_divided = false; ///< by the file's logit_scale, else multiplied

    // Positions.
    Positions positions = Positions::rotary;
    kernels::RopeStyle rope_style = kernels::RopeStyle::interleaved;
    RopeLayers rope_layers = RopeLayers::all;
    /// Layers with a window have a rotation of their own, unscaled, with this base; 0: the same as the
    /// others. The file's rope.freq_base_swa decides where it is there.
    double window_rope_base = 0.0;

    // Attention.
    int window = 0;                  ///< where the file gives none; 0: none
    int full_every = 0;              ///< every n-th layer has no window; 0: all have one
    float attention_soft_cap = 0.0f; ///< where the file gives none
    float logit_soft_cap = 0.0f;     ///< where the file gives none
    /// Models of so many layers divide scores by √(hidden / heads) in place of √key_length.
    int hidden_scale_layers = 0;

    // Feed-forward.
    kernels::ActivationKind activation = kernels::ActivationKind::silu;
    bool gated = true;

    // Experts, where the file does not say otherwise.
    kernels::RouterScore router = kernels::RouterScore::softmax;
    bool normalize_experts = false; ///< weights of the chosen experts add up to 1

    TensorNames tensors = {};
    FieldNames fields = {};
};

/// The architecture of this name, or nullptr.
const Architecture* find_architecture(std::string_view name);

/// All names, for people: "llama, qwen2".
std::string architecture_names();

} // namespace orrery
