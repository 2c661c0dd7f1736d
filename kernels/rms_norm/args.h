#pragma once
// y[t,i] = x[t,i] * weight[i] / sqrt(mean_i(x[t,i]^2) + eps), in fp32.

namespace warptune {

struct RmsNormArgs {
  const void* x;       // [tokens, hidden], dtype
  const void* weight;  // [hidden], dtype
  void* y;             // [tokens, hidden], dtype
  int tokens;
  float eps;
};

}  // namespace warptune
