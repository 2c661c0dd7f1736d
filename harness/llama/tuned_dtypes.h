#pragma once
// The dtypes in which a wisdom has the winners of a model.
#include <vector>

#include "harness/core/op_table.h"
#include "harness/llama/model_config.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The dtypes in which each GEMM of a layer has a winner, for any number of tokens and on any device.
std::vector<DType> tuned_dtypes(const OpTable& ops, const Wisdom& wisdom, const ModelConfig& config);

}  // namespace warptune
