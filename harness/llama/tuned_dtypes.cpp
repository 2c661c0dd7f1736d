#include "harness/llama/tuned_dtypes.h"

#include <algorithm>

#include "harness/llama/model_problems.h"

namespace warptune {

std::vector<DType> tuned_dtypes(const OpTable& ops, const Wisdom& wisdom, const ModelConfig& config) {
  const auto has = [&](const Problem& gemm) {
    return std::ranges::any_of(wisdom.winners(), [&](const Winner& winner) {
      const Problem& tuned = winner.problem;
      return tuned.op == gemm.op && tuned.dtype == gemm.dtype && tuned["in"] == gemm["in"] &&
             tuned["out"] == gemm["out"];
    });
  };
  std::vector<DType> dtypes;
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    const ModelProblems of(ops, config, dtype);
    const bool has_gate_up = has(of.gate_up(1)) || has(of.gate_up(1, {.swiglu = true}));
    if (has(of.qkv(1)) && has(of.o(1)) && has_gate_up && has(of.down(1))) dtypes.push_back(dtype);
  }
  return dtypes;
}

}  // namespace warptune
