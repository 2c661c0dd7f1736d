#pragma once
// residual_out = the sum of x over all ranks (rounded to dtype) + residual (rounded to dtype);
// y = rms_norm(residual_out) * weight.

namespace warptune {

struct AllReduceAddRmsNormArgs {
  const void* x;         // [tokens, hidden], dtype
  const void* residual;  // [tokens, hidden], dtype
  const void* weight;    // [hidden], dtype
  void* residual_out;    // [tokens, hidden], dtype; may be the same memory as residual
  void* y;               // [tokens, hidden], dtype
  int tokens;
  float eps;
};

}  // namespace warptune
