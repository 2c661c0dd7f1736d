#pragma once
// y[b, i] = x[cu_seqlens[b] + i] for i < length of b, zeros after it: pads packed rows again.

namespace warptune {

struct RestorePaddingArgs {
  const void* x;          // [tokens, hidden], dtype
  const int* cu_seqlens;  // [batch + 1]
  void* y;                // [batch, max_q_len, hidden], dtype
  int batch;
  int max_q_len;
};

}  // namespace warptune
