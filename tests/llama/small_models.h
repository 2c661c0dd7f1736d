#pragma once
// The models that tests run: goldens of transformers, and a tiny one for random weights.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "harness/core/dtype.h"
#include "harness/llama/model_config.h"

namespace warptune::testing {

/// A folder of tests/data/golden: a checkpoint and the outputs of transformers for it
/// (scripts/make_golden.py).
inline constexpr const char* kGoldens[] = {"mha", "gqa", "llama3_rope", "tied"};

/// A golden and a dtype: one test each, so that they run in parallel.
using GoldenRun = std::tuple<const char*, DType>;
inline std::string golden_run_name(const ::testing::TestParamInfo<GoldenRun>& run) {
  const auto& [name, dtype] = run.param;
  return std::string(name) + "_" + std::string(name_of(dtype));
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
