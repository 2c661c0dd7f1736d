// Split-K GEMV, for few tokens.
// Grid: (row groups, kSplits); a block computes kWarps * kRows output rows over one split of the row
//   length, a warp kRows of them. Loads as in gemv_vectorized (gemv.cuh).
// Combine: last-block reduction. Every block writes fp32 partial sums to the workspace; the last block of a
//   row group adds them in the order of the splits, so that runs agree bitwise, and resets the counter.
// Workspace: int counters[row groups], then from byte kPartialOffset float partial[kSplits][kTokens][kOut].
// Wins: among the GEMVs at 8 tokens where rows are long and few (14336 x 4096); never at one token.
// Source: threadFenceReduction (CUDA samples).
#include "kernels/common/pdl.cuh"
#include "kernels/linear/args.h"
#include "kernels/linear/gemv.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kWarps, int kRows, int kUnroll, int kSplits,
          int kPartialOffset>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_split_k(LinearArgs args) {
  constexpr int kRowsPerBlock = kWarps * kRows;
  using Rows = GemvRows<T, kIn, kTokens, kRows, kUnroll, 32>;
  constexpr int kPerSplit = ceil_div(Rows::kVectors, kSplits);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = static_cast<int>(blockIdx.x) * kRowsPerBlock, row0 = block_row + warp * kRows;
  const int split = blockIdx.y;
  const int first = min_of(split * kPerSplit, Rows::kVectors);
  Rows rows(
      static_cast<const T*>(args.weight), [=](int r) { return min_of(row0 + r, kOut - 1); }, lane, first,
      min_of(first + kPerSplit, Rows::kVectors));
  rows.load_prologue();
  pdl_launch_dependents();
  pdl_wait();
  rows.main_loop(static_cast<const T*>(args.x));

  int* counter = static_cast<int*>(args.workspace) + blockIdx.x;
  float* partial = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + kPartialOffset);
  if (lane == 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        if (row0 + r < kOut)
          partial[(static_cast<long long>(split) * kTokens + t) * kOut + row0 + r] = rows.sum[r][t];
    __threadfence();
  }
  __syncthreads();
  __shared__ int arrival;
  if (threadIdx.x == 0) arrival = atomicAdd(counter, 1);
  __syncthreads();
  if (arrival != kSplits - 1) return;
  __threadfence();
  if (threadIdx.x == 0) *counter = 0;
  for (int i = threadIdx.x; i < kRowsPerBlock * kTokens; i += kWarps * 32) {
    const int row = block_row + i % kRowsPerBlock, token = i / kRowsPerBlock;
    if (row < kOut) {
      float sum = 0;
#pragma unroll
      for (int s = 0; s < kSplits; ++s)
        sum += __ldcg(partial + (static_cast<long long>(s) * kTokens + token) * kOut + row);
      if constexpr (kBias != 0) sum += to_float(static_cast<const T*>(args.bias)[row]);
      static_cast<T*>(args.y)[static_cast<long long>(token) * kOut + row] = from_float<T>(sum);
    }
  }
}

}  // namespace warptune
