#pragma once
// The modules of a checkpoint that hold the matrices of a model.
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/tensor_parallel.h"

namespace warptune {

/// Names and rows. A module may come more than once, with several ranges of its rows.
using Parts = std::vector<std::pair<std::string, Slice>>;

/// Modules of a checkpoint that are one matrix, one below the other.
struct Modules {
  Parts parts;
  Slice columns;
};

struct LayerModules {
  Modules qkv, o, gate_up, down;
};

LayerModules layer_modules(const ModelConfig& config, int layer);
Modules head_module(const ModelConfig& config);

}  // namespace warptune
