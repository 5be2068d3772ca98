// The shape of a model, as its file states it.
#pragma once

#include "kernels/backend.h"

#include <string>
#include <vector>

namespace orrery {

class GgufFile;

struct RopeConfig {
    int dimensions = 0; ///< elements of a head that are turned; 0: none
    double base = 10000.0;
    kernels::RopeStyle style = kernels::RopeStyle::interleaved;
    double linear_factor = 1.0; ///< positions are divided by it ("linear" scaling)
    std::vector<float>
        frequency_factors; ///< [dimensions / 2], divide each frequency ("llama3" scaling); or empty
};

struct ModelConfig {
    std::string architecture;
    std::string name;
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int kv_heads = 0;
    int key_length = 0;
    int value_length = 0;
    int feed_forward = 0;
    int vocab = 0;
    int context_length = 0; ///< tokens the model was trained for
    float norm_eps = 1e-5f;
    RopeConfig rope;
};

/// Reads and checks the configuration. Throws Error for an architecture that is not known, and for a
/// field that is missing or contradicts another.
ModelConfig read_config(const GgufFile& file);

} // namespace orrery
