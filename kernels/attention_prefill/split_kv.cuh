#pragma once
// Split-KV: the workspace in which kSplits blocks leave their partial outputs of the same queries. Written by
// flash_mma.cu, combined by split_kv_combine.cu.
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/attention_prefill/tile_dim.h"

namespace warptune {

template <class Shape, int kSplits>
struct SplitKvWorkspace {
  static constexpr int kDim = tile_dim(Shape::kHeadDimV);  // elements of a row of out, for aligned stores

  long long rows_per_split;
  float* out;       // [kSplits][tokens][q_heads][kDim], unnormalized; undefined where the row sum is 0
  float2* max_sum;  // [kSplits][tokens][q_heads]: row maximum (base-2 units) and row sum

  __device__ __forceinline__ explicit SplitKvWorkspace(const AttentionPrefillArgs& args)
      : rows_per_split(static_cast<long long>(args.batch) * args.q_len * Shape::kQHeads),
        out(static_cast<float*>(args.workspace)),
        max_sum(reinterpret_cast<float2*>(out + kSplits * rows_per_split * kDim)) {}

  /// The index of a row in max_sum, and in rows of out.
  __device__ __forceinline__ long long row(int split, int token, int head) const {
    return split * rows_per_split + static_cast<long long>(token) * Shape::kQHeads + head;
  }
};

}  // namespace warptune
