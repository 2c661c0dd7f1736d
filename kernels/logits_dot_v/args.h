#pragma once
// out[b,h] = sum over keys of logits[b,h,key] * V[b,h/group,key] for the first lengths[b] keys: the P.V of
// decode attention alone, a GEMV per head; the softmax comes before it.

namespace warptune {

struct LogitsDotVArgs {
  const void* logits;   // [batch, q_heads, capacity], dtype
  const void* v_cache;  // [batch, kv_heads, capacity, head_dim], dtype
  const int* lengths;   // [batch]: keys of each sequence; 0: out is zeros
  void* out;            // [batch, q_heads, head_dim], dtype
  void* workspace;      // of the size that the variant states, zeroed before the first launch
  int batch;
  int capacity;  // keys per sequence that the cache can hold
};

}  // namespace warptune
