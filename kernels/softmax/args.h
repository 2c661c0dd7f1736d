#pragma once
// y = softmax(x * scale) over the last dim, where mask is not 0; a fully masked row becomes zeros.

namespace warptune {

struct SoftmaxArgs {
  const void* x;     // [batch, q_heads, q_len, kv_len], dtype
  const void* mask;  // [batch, q_len, kv_len], dtype; null where the problem has no mask
  void* y;           // [batch, q_heads, q_len, kv_len], dtype
  int batch;
  float scale;
};

}  // namespace warptune
