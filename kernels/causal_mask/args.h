#pragma once
// mask[b,q,k] = 1 where query q of sequence b sees key k, else 0. Bottom-right causal: the context is wholly
// visible, the rest a lower triangle: q < q_lens[b] and k < k_lens[b] and k <= q + (k_lens[b] - q_lens[b]).

namespace warptune {

struct CausalMaskArgs {
  const int* q_lens;  // [batch]
  const int* k_lens;  // [batch], context + query
  void* mask;         // [batch, max_q_len, max_k_len], dtype
  int batch;
};

}  // namespace warptune
