#pragma once
// out[b,h] = softmax(q[b,h] . K[b,h/group] * scale + bias) . V[b,h/group] over the first lengths[b] keys, or
// the last `window` of these: one query token per sequence. With `append`, the step before is fused in: q, k,
// v come as one fused qkv row, bias is added, q and k are rotated (half-split RoPE) at position
// lengths[b] - 1, and k, v are written there.
//
// A cache is contiguous, [batch, kv_heads, capacity, head_dim], or a pool of pages, [pages, kv_heads,
// page_size, head_dim], of which sequence b owns block_table[b], in the order of its keys. Its K may lie as
// [.., head_dim / x, rows, x] with x of 16 bytes instead of [.., rows, head_dim]. The dims say which.
//
// A quantised cache holds int8 or fp8 (e4m3) codes; a value is its code times a scale, of its KV head or of
// its row. An appended row is rounded to dtype, then quantised: by the head's scale; or by one of its own,
// max |x| / 127 (448), that is written beside it. It is attended to as the cache holds it.

namespace warptune {

struct AttentionDecodeArgs {
  const void* q;  // [batch, q_heads, head_dim], dtype; with append: [batch, q_heads + 2 * kv_heads, head_dim]
  void* k_cache;  // see above; dtype, int8 or fp8
  void* v_cache;
  const int* lengths;     // [batch]: keys of each sequence, the current token included; 0: out is zeros
  const void* bias;       // append only: [q_heads + 2 * kv_heads, head_dim], dtype, or null
  const float* inv_freq;  // append only: [head_dim / 2]
  void* out;              // [batch, q_heads, head_dim], dtype; int8 where the epilogue quantises
  void* workspace;        // what the variant asked for, zeroed before the first launch
  int batch;
  int capacity;  // keys that a sequence has room for, a multiple of page_size
  float scale;

  // Of features; null where a problem does not have them.
  float* k_scale =
      nullptr;  // quantised caches: [kv_heads], or per row: [batch, kv_heads, capacity], of pages
  float* v_scale = nullptr;             // [pages, kv_heads, page_size]; any finite number, of a head not 0
  const int* block_table = nullptr;     // [batch, capacity / page_size]: pages; read only where keys count
  const float* alibi_slopes = nullptr;  // [q_heads]: slope * (key - (lengths[b] - 1)) is added to a score
  const void* score_bias = nullptr;     // [batch, q_heads, capacity], dtype: added; -inf masks a key
  float* lse = nullptr;                 // [batch, q_heads]: ln of the sum of exp(score); -inf without keys
  // Epilogues: y = (x + shift) * smooth, and int8(y * out_scale), rounded to nearest even, -127 to 127. A
  // sequence without keys has x = 0.
  const void* shift = nullptr;   // [q_heads, head_dim], dtype
  const void* smooth = nullptr;  // [q_heads, head_dim], dtype
  float out_scale = 0;
};

}  // namespace warptune
