// Idea: the rows' length is split over kSplits blocks, so that a matrix of few rows still fills the device.
// Blocks leave fp32 partial sums in the workspace; the last one to arrive for a group of rows adds them in
// the order of the splits (the same result on every run) and puts the counter back to zero.
// Workspace: int counters[row groups], then from `kPartialOffset` bytes float
// partial[kSplits][kTokens][kOut].
#include "kernels/common/pdl.cuh"
#include "kernels/linear/args.h"
#include "kernels/linear/gemv.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kWarps, int kRows, int kUnroll, int kSplits,
          int kPartialOffset>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_split_k(LinearArgs args) {
  constexpr int kRowsPerBlock = kWarps * kRows;
  using Rows = GemvRows<T, kIn, kTokens, kRows, kUnroll, 32>;
  constexpr int kPerSplit = ceil_div(Rows::kPieces, kSplits);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int block_row = static_cast<int>(blockIdx.x) * kRowsPerBlock, row0 = block_row + warp * kRows;
  const int split = blockIdx.y;
  const int first = min_of(split * kPerSplit, Rows::kPieces);
  Rows rows(static_cast<const T*>(args.weight), row0, kOut, lane, first,
            min_of(first + kPerSplit, Rows::kPieces));
  rows.load_first();
  pdl_launch_dependents();
  pdl_wait();
  rows.run(static_cast<const T*>(args.x));

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
  __shared__ int arrived;
  if (threadIdx.x == 0) arrived = atomicAdd(counter, 1);
  __syncthreads();
  if (arrived != kSplits - 1) return;
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
