#pragma once
// Chooses what a decode step fuses.
#include <functional>
#include <span>

#include "harness/llama/fusion.h"
#include "harness/llama/model_problems.h"

namespace warptune {

/// Throws InputError where a fusion that is switched on has no kernel for the model.
void expect_possible_fusions(const FusionChoice& fuse, const ModelProblems& problems,
                             const ModelConfig& config, DType dtype);

/// Whether some launches are expected to be faster than others that do the same (PlanChooser::prefers()).
using Prefers = std::function<bool(std::span<const Problem> some, std::span<const Problem> others)>;

/// What a step of `batch` sequences fuses: what is `wanted` and possible, and else what is faster by the
/// wisdom. `greedy`: whether the next token is the argmax.
Fusion choose_fusion(const FusionChoice& wanted, const ModelProblems& problems, const Prefers& prefers,
                     int batch, std::int64_t context, bool greedy);

}  // namespace warptune
