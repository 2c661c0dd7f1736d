#pragma once
// out[t,h] = softmax(q[t,h] . K * scale) . V over the keys that query t sees. Query i (of q_len) of a
// sequence with kv_len keys sees keys k <= i + kv_len - q_len when causal (bottom-right), else all of them.
// Queries are packed.

namespace warptune {

struct AttentionPrefillArgs {
  const void* q;  // [tokens, q_heads, head_dim], dtype; sequence b has rows cu_seqlens[b] to cu_seqlens[b+1]
  const void* k_cache;    // [batch, kv_heads, capacity, head_dim], dtype
  const void* v_cache;    // [batch, kv_heads, capacity, head_dim], dtype
  const int* cu_seqlens;  // [batch + 1]
  const int* kv_lens;     // [batch]: keys of each sequence, its new tokens included
  void* out;              // [tokens, q_heads, head_dim], dtype; a query that sees no key gives zeros
  void* workspace;        // what the variant asked for, zeroed before the first launch
  int batch;
  int capacity;
  float scale;
};

}  // namespace warptune
