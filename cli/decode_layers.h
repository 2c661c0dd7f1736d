#pragma once
// decode --dump-layers and --compare-layers: the activations of a run that launches op by op.
#include <string>
#include <vector>

#include "harness/llama/model.h"

namespace warptune {

/// Writes the activations of the prefill and `steps` steps.
void dump_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                 const std::string& folder);
/// Runs the prefill and the steps on the dump's tokens and prints where the activations part. Returns whether
/// they agree.
bool compare_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                    const std::string& folder);

}  // namespace warptune
