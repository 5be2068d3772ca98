// Makes a model's plan from its architecture's traits, its configuration and its file, and loads the weights
// that the plan names.
#pragma once

#include "engine/model/forward_plan.h"
#include "engine/model/weight_loader.h"

namespace orrery {

/// Throws what WeightLoader throws, and Error for a tensor that belongs to no part of the model.
ForwardPlan build_plan(const ModelConfig& config, WeightLoader& loader);

} // namespace orrery
