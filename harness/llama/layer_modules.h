#pragma once
// The modules of a checkpoint that hold the matrices of a model.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/model_config.h"

namespace warptune {

using Parts = std::vector<std::pair<std::string, std::int64_t>>;  // names and rows

/// Modules of a checkpoint that are one matrix, one below the other.
struct Modules {
  Parts parts;
  std::int64_t columns;
};

struct LayerModules {
  Modules qkv, o, gate_up, down;
};

LayerModules layer_modules(const ModelConfig& config, int layer);
Modules head_module(const ModelConfig& config);

}  // namespace warptune
