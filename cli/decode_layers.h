#pragma once
// decode --dump-layers and --compare-layers: the activations of a run that launches op by op.
#include <string>
#include <vector>

#include "cli/ranks.h"
#include "harness/llama/model.h"

namespace warptune {

/// Writes the activations of the prefill and `steps` steps, with ranks those of rank 0.
void dump_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                 const std::string& folder, const Ranks& ranks);
/// Runs the prefill and the steps on the dump's tokens and prints where the activations part. Returns whether
/// they agree, on ranks but the first always.
bool compare_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                    const std::string& folder, const Ranks& ranks);

}  // namespace warptune
