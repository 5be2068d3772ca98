// The shape of a model: what its file states, with what its architecture's row of the table adds.
#pragma once

#include "engine/model/architecture.h"
#include "kernels/tensor.h"

#include <string>
#include <vector>

namespace orrery {

class GgufFile;

struct RopeConfig {
    int dimensions = 0; ///< elements of a head that are rotated, even; 0: none
    double base = 10000.0;
    double linear_factor = 1.0; ///< positions are divided by it ("linear" scaling)
    std::vector<float>
        frequency_factors; ///< [dimensions / 2], divide each frequency ("llama3" scaling); or empty

    bool operator==(const RopeConfig&) const = default;
};

struct LayerConfig {
    int heads = 0;
    int kv_heads = 0;
    int key_length = 0;
    int value_length = 0;
    float attention_scale = 0.0f;
    int feed_forward = 0;
    int window = 0;      ///< tokens that a row sees, itself and those before it; 0: all of them
    int rope = -1;       ///< of ModelConfig::ropes; −1: queries and keys are not rotated
    int cache = 0;       ///< of ModelConfig::caches
    int cache_layer = 0; ///< the layer's number in that cache
};

/// Layers whose keys and values have one shape: they share a cache.
struct CacheShape {
    int layers = 0;
    int kv_heads = 0;
    int key_length = 0;
    int value_length = 0;

    /// Of the shape alone.
    bool operator==(const CacheShape& other) const {
        return kv_heads == other.kv_heads && key_length == other.key_length &&
               value_length == other.value_length;
    }
};

/// Experts of the layers that have a router.
struct ExpertConfig {
    int count = 0; ///< 0: no layer has experts
    int used = 0;  ///< by a token, in each layer
    kernels::RouterScore score = kernels::RouterScore::softmax;
    bool normalize = false;
    float scale = 1.0f;
};

struct ModelConfig {
    std::string architecture;
    const Architecture* traits = nullptr; ///< the architecture's row of the table
    std::string name;
    int hidden = 0;
    int vocab = 0;
    int context_length = 0; ///< tokens the model was trained for
    int max_positions = 0;  ///< positions that it can tell apart; 0: any number
    float norm_eps = 1e-5f;
    bool parallel_residual = false;
    float embedding_scale = 1.0f;
    float residual_scale = 1.0f; ///< of what attention and feed-forward add
    float logit_scale = 1.0f;    ///< logits are multiplied by it
    float attention_soft_cap = 0.0f;
    float logit_soft_cap = 0.0f;
    ExpertConfig experts;
    std::vector<LayerConfig> layers;
    std::vector<CacheShape> caches;
    std::vector<RopeConfig> ropes;
};

/// Reads and checks the configuration. Throws Error for an architecture that is not known, for a field that
/// is missing or contradicts another, and for what would change the arithmetic and is not built.
ModelConfig read_config(const GgufFile& file);

} // namespace orrery
