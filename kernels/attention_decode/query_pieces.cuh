#pragma once
// The query rows that a lane multiplies with keys.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Row `head` of sequence b: of the queries, or of the fused row where the step before is fused in.
template <class P>
__device__ __forceinline__ const typename P::T* query_row(const AttentionDecodeArgs& args, int b, int head) {
  constexpr int kRows = P::kQHeads + (P::kAppend ? 2 * P::kKvHeads : 0);
  return static_cast<const typename P::T*>(args.q) + (static_cast<long long>(b) * kRows + head) * P::kHeadDim;
}

/// Of kRows rows kCount pieces of kVec elements, as they lie in memory.
template <class T, int kRows, int kCount, int kVec>
struct QueryPieces {
  Vec<T, kVec> x[kRows][kCount] = {};

  /// `at(row, i)`: where a piece lies behind `from`; below 0: nowhere, it stays 0.
  template <class At>
  __device__ __forceinline__ void load(const T* from, At at) {
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (at(row, i) >= 0) x[row][i] = load_vec<kVec>(from + at(row, i));
  }
};

}  // namespace warptune
