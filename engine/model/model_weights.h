// A model's weights on a device, and the plan of its forward pass. Both are made once and never change, so
// that any number of engines can share them.
#pragma once

#include "engine/model/config.h"
#include "engine/model/forward_plan.h"
#include "engine/model/weight_loader.h"

#include <atomic>
#include <memory>

namespace orrery {

class ModelWeights {
public:
    /// Loads the weights; the file stays mapped for as long as they live. The back end has to outlive them.
    /// Throws Error for a tensor that is missing or has a wrong shape, Cancelled once `*cancel` is true,
    /// OutOfMemory.
    ModelWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config, kernels::Backend& backend,
                 const LoadProgress& progress = nullptr, const std::atomic<bool>* cancel = nullptr);

    const GgufFile& file() const { return *file_; }
    const ModelConfig& config() const { return config_; }
    const ForwardPlan& plan() const { return plan_; }

    /// Bytes of weights that a pass of so many rows reads on this device, with the output matrix or without.
    /// Of experts, as many as the rows can choose.
    size_t pass_bytes(int rows, bool outputs) const;
    /// Multiplications and additions of one row by all layers' matrices (of experts, those chosen), and of
    /// one row of output by the output matrix.
    double layer_operations() const;
    double output_operations() const;

private:
    std::shared_ptr<const GgufFile> file_;
    ModelConfig config_;
    DeviceTensors tensors_;
    ForwardPlan plan_;
};

} // namespace orrery
