#pragma once
// y[t,i] = silu(gate[t,i]) * up[t,i], silu(x) = x / (1 + exp(-x)), in fp32.

namespace warptune {

struct SwigluArgs {
  const void* gate_up;  // [tokens, 2 * intermediate], dtype: a row is gate, then up
  void* y;              // [tokens, intermediate], dtype
  int tokens;
};

}  // namespace warptune
