#pragma once
// y[t,o] = sum_i x[t,i] * weight[o,i] (+ bias[o]), accumulated in fp32.

namespace warptune {

struct LinearArgs {
  const void* x;       // [tokens, in], dtype
  const void* weight;  // [out, in], dtype
  const void* bias;    // [out], dtype; null where the problem has no bias
  void* y;             // [tokens, out], dtype
  void* workspace;     // of the size that the variant states, zeroed before the first launch
  int tokens;
};

}  // namespace warptune
