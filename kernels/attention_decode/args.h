#pragma once
// out[b,h] = softmax(q[b,h] . K[b,h/group] * scale) . V[b,h/group] over the first lengths[b] keys: one query
// token per sequence. With `append`, the step before is fused in: q, k, v come as one fused qkv row, bias is
// added, q and k are rotated (half-split RoPE) at position lengths[b] - 1, and k, v are written there.

namespace warptune {

struct AttentionDecodeArgs {
  const void* q;  // [batch, q_heads, head_dim], dtype; with append: [batch, q_heads + 2 * kv_heads, head_dim]
  void* k_cache;  // [batch, kv_heads, capacity, head_dim], or [batch, kv_heads, head_dim / x, capacity, x]
  void* v_cache;  // [batch, kv_heads, capacity, head_dim]; x is 16 bytes of dtype
  const int* lengths;     // [batch]: keys of each sequence, the current token included; 0: out is zeros
  const void* bias;       // append only: [q_heads + 2 * kv_heads, head_dim], dtype, or null
  const float* inv_freq;  // append only: [head_dim / 2]
  void* out;              // [batch, q_heads, head_dim], dtype
  void* workspace;        // what the variant asked for, zeroed before the first launch
  int batch;
  int capacity;
  float scale;
};

}  // namespace warptune
