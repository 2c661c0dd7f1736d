#pragma once
// The models that tests run: goldens of transformers, and a tiny one for random weights.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/llama/model_config.h"

namespace warptune::testing {

/// A folder of tests/data/golden: a checkpoint and the outputs of transformers for it
/// (scripts/make_golden.py). Those of llama:
inline constexpr const char* kGoldens[] = {"mha", "gqa", "llama3_rope", "tied"};
/// Those of the other families.
inline constexpr const char* kFamilyGoldens[] = {"mistral", "qwen2",   "qwen2_yarn", "qwen3",
                                                 "phi3",    "smollm3", "granite"};

/// A golden and a dtype: one test each, so that they run in parallel.
using GoldenRun = std::tuple<const char*, DType>;
inline std::string golden_run_name(const ::testing::TestParamInfo<GoldenRun>& run) {
  const auto& [name, dtype] = run.param;
  return std::string(name) + "_" + std::string(name_of(dtype));
}

/// A folder of tests/data/quantized (scripts/make_quantized_golden.py) that can be read.
inline constexpr const char* kQuantizedGoldens[] = {
    "awq",  "ct_fp8",    "ct_int4",        "ct_int4_zero", "ct_int8",        "fp8_block", "fp8_tensor",
    "gptq", "gptq_8bit", "gptq_act_order", "mixed",        "modelopt_nvfp4", "mxfp4",     "nvfp4"};

/// Every format of weights that op linear has.
inline std::vector<WeightFormat> all_weight_formats() {
  std::vector<WeightFormat> formats = {{},
                                       {.weights = kWeightsFp8},
                                       {.weights = kWeightsFp8, .group = 128},
                                       {.weights = kWeightsNvfp4, .group = 16},
                                       {.weights = kWeightsMxfp4, .group = 32},
                                       {.weights = kWeightsQ4K, .group = 32},
                                       {.weights = kWeightsQ5K, .group = 32},
                                       {.weights = kWeightsQ6K, .group = 16}};
  for (const int weights : {kWeightsInt8, kWeightsInt4})
    for (const int group : {0, 32, 64, 128})
      for (const bool zeros : {false, true})
        for (const bool act_order : {false, true}) {
          const bool has_dims = group != 0 || !act_order;
          if (has_dims && !(zeros && weights == kWeightsInt8))
            formats.push_back({.weights = weights, .group = group, .zeros = zeros, .act_order = act_order});
        }
  return formats;
}

inline ModelConfig tiny() {
  return {.name = "tiny",
          .hidden = 48,
          .intermediate = 80,
          .layers = 2,
          .q_heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .vocab = 97,
          .max_position = 512};
}

}  // namespace warptune::testing
