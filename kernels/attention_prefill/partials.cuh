#pragma once
// What the blocks that share the keys of a query leave for the one that merges: rows in the workspace, each
// with the maximum of its scores (units of log2(e)) and the sum of the powers of two below it.
#include "kernels/attention_prefill/sequence.cuh"

namespace warptune {

template <class S, int kSplits>
struct Partials {
  long long per_split;
  float* rows;     // [kSplits][tokens][q_heads][head_dim_v]; not written where the sum is 0
  float2* states;  // [kSplits][tokens][q_heads]: maximum, sum

  __device__ __forceinline__ explicit Partials(const AttentionPrefillArgs& args)
      : per_split(static_cast<long long>(args.batch) * args.q_len * S::kQHeads),
        rows(static_cast<float*>(args.workspace)),
        states(reinterpret_cast<float2*>(rows + kSplits * per_split * S::kHeadDimV)) {}

  __device__ __forceinline__ long long index(int split, int token, int head) const {
    return split * per_split + static_cast<long long>(token) * S::kQHeads + head;
  }
};

}  // namespace warptune
