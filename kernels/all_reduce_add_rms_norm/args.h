#pragma once
// The sum of the x of all ranks, then add_rms_norm: residual_out = sum + residual, y = rms_norm(residual_out)
// * weight. The sum and residual_out are rounded to dtype.

namespace warptune {

struct AllReduceAddRmsNormArgs {
  const void* x;         // [tokens, hidden], dtype: what this rank adds
  const void* residual;  // [tokens, hidden], dtype
  const void* weight;    // [hidden], dtype
  void* residual_out;    // [tokens, hidden], dtype; may be the same memory as residual
  void* y;               // [tokens, hidden], dtype
  int tokens;
  float eps;
};

}  // namespace warptune
