#pragma once
// What the kernels of attention_prefill share: the lengths of a sequence and which keys a query sees.
#include "attention_prefill/args.h"
#include "common/numeric.cuh"

namespace warptune {

struct Sequence {
  int first;   // its first row of q
  int q_len;   // its queries
  int kv_len;  // its keys
};

__device__ __forceinline__ Sequence load_sequence(const AttentionPrefillArgs& args, int b) {
  const int first = args.cu_seqlens[b];
  return {first, args.cu_seqlens[b + 1] - first, args.kv_lens[b]};
}

/// How many keys (the first ones) query i sees; 0 and below: none. Not above kv_len.
template <bool kCausal>
__device__ __forceinline__ int visible_keys(const Sequence& s, int i) {
  return kCausal ? min(s.kv_len, i + s.kv_len - s.q_len + 1) : s.kv_len;
}

/// Elements before the first key (and value) that a query head of sequence b sees in the caches.
template <int kQHeads, int kKvHeads, int kHeadDim>
__device__ __forceinline__ long long kv_offset_of(const AttentionPrefillArgs& args, long long b, int head) {
  return (b * kKvHeads + head / (kQHeads / kKvHeads)) * args.capacity * kHeadDim;
}

}  // namespace warptune
