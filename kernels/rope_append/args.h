#pragma once
// Splits fused qkv rows, adds the bias, rotates q and k (RoPE) and appends k and v to the KV cache.
// Pair i of a head is (x[i], x[i + D/2]) for half_split and (x[2i], x[2i+1]) for interleaved; it is rotated
// by angle = float(position) * inv_freq[i] (fp32, as Hugging Face does). For dynamic_ntk, inv_freq is that of
// theta; where the sequence is longer than max_position, theta grows to
// theta * (factor * length / max_position - (factor - 1)) ^ (D / (D - 2)), length = position + 1 of its last
// token.

namespace warptune {

struct RopeAppendArgs {
  const void* qkv;        // [tokens, q_heads + 2 * kv_heads, head_dim], dtype
  const void* bias;       // [q_heads + 2 * kv_heads, head_dim], dtype; null where the problem has no bias
  const int* sequence;    // [tokens]: which sequence of the cache, in [0, batch)
  const int* position;    // [tokens]: place in the sequence; below 0: the token is skipped altogether
  const int* lengths;     // [batch]: KV length of each sequence with its new tokens (dynamic_ntk only)
  const float* inv_freq;  // [head_dim / 2]
  void* q;                // [tokens, q_heads, head_dim], dtype
  void* k_cache;  // [batch, kv_heads, capacity, head_dim], or [batch, kv_heads, head_dim / x, capacity, x]
  void* v_cache;  // [batch, kv_heads, capacity, head_dim]; x is 16 bytes of dtype
  int tokens;
  int capacity;
  float theta;
  float factor;
  int max_position;
};

}  // namespace warptune
