#pragma once
// residual_out = x + residual (rounded to dtype); y = rms_norm(residual_out) * weight.

namespace warptune {

struct AddRmsNormArgs {
  const void* x;         // [tokens, hidden], dtype
  const void* residual;  // [tokens, hidden], dtype
  const void* weight;    // [hidden], dtype
  void* residual_out;    // [tokens, hidden], dtype; may be the same memory as residual
  void* y;               // [tokens, hidden], dtype
  int tokens;
  float eps;
};

}  // namespace warptune
