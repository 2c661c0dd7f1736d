#pragma once
// out[b,h] = sum over keys of logits[b,h,key] * V[b,h/group,key] for the first lengths[b] keys: the second
// product of decode attention alone, a matrix-vector product per head, after a softmax of its own.

namespace warptune {

struct LogitsDotVArgs {
  const void* logits;   // [batch, q_heads, capacity], dtype
  const void* v_cache;  // [batch, kv_heads, capacity, head_dim], dtype
  const int* lengths;   // [batch]: keys of each sequence; 0: out is zeros
  void* out;            // [batch, q_heads, head_dim], dtype
  void* workspace;      // what the variant asked for, zeroed before the first launch
  int batch;
  int capacity;  // keys that a sequence has room for
};

}  // namespace warptune
