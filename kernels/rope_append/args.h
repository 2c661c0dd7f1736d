#pragma once
// Splits fused qkv rows, adds the bias, rotates q and k (RoPE) and appends k and v to the KV cache.
// Pair i of a head is (x[i], x[i + D/2]) for half_split and (x[2i], x[2i+1]) for interleaved; it is rotated
// by angle = float(position) * inv_freq[i] (fp32, as Hugging Face does). For dynamic_ntk, inv_freq is that of
// theta; where the sequence is longer than max_position, theta grows to
// theta * (factor * length / max_position - (factor - 1)) ^ (D / (D - 2)), length = position + 1 of its last
// token.
//
// A cache is contiguous, [batch, kv_heads, capacity, head_dim], or a pool of pages, [pages, kv_heads,
// page_size, head_dim], of which sequence b owns block_table[b], in the order of its keys. Its K may lie as
// [.., head_dim / x, rows, x] with x of 16 bytes instead of [.., rows, head_dim]. A quantised cache holds
// int8 or fp8 (e4m3) codes: a row is rounded to dtype and divided by its scale, max |x| / 127 (448), which is
// written beside it. So it is what attention_decode takes with kv_scale=token.

namespace warptune {

struct RopeAppendArgs {
  const void* qkv;        // [tokens, q_heads + 2 * kv_heads, head_dim], dtype
  const void* bias;       // [q_heads + 2 * kv_heads, head_dim], dtype; null where the problem has no bias
  const int* sequence;    // [tokens]: which sequence of the cache, in [0, batch)
  const int* position;    // [tokens]: place in the sequence; below 0: the token is skipped altogether
  const int* lengths;     // [batch]: KV length of each sequence with its new tokens (dynamic_ntk only)
  const float* inv_freq;  // [head_dim / 2]
  void* q;                // [tokens, q_heads, head_dim], dtype
  void* k_cache;          // see above; dtype, int8 or fp8
  void* v_cache;
  int tokens;
  int capacity;  // keys that a sequence has room for, a multiple of page_size
  float theta;
  float factor;
  int max_position;

  // Of features; null where a problem does not have them.
  float* k_scale = nullptr;          // quantised: [batch, kv_heads, capacity], or of pages:
  float* v_scale = nullptr;          // [pages, kv_heads, page_size]
  const int* block_table = nullptr;  // [batch, capacity / page_size]: pages; read only where rows are written
};

}  // namespace warptune
