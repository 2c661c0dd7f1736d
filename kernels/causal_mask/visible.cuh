#pragma once
// Which keys a query sees.
#include "kernels/causal_mask/args.h"

namespace warptune {

/// The number of keys that query q of sequence b sees: keys 0 to that number.
__device__ __forceinline__ int visible_keys(const CausalMaskArgs& args, int b, int q) {
  const int q_len = args.q_lens[b], k_len = args.k_lens[b];
  return q < q_len ? max(0, min(k_len, q + k_len - q_len + 1)) : 0;
}

}  // namespace warptune
