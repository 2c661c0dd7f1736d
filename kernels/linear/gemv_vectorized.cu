// Vectorized GEMV with register prefetch, for few tokens (the time is that of reading the weights once).
// Grid: a block has kWarps / kWarpsPerRow groups; a group of kWarpsPerRow warps computes kRows output rows.
// Loads: 16-byte read-only loads without an L1 line, kUnroll per row and thread in flight (gemv.cuh); the
//   first ones are issued before pdl_wait().
// Sync: the warps of a group add their partial sums in shared memory, one __syncthreads(). Argmax:
//   argmax.cuh.
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/gemv.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kEpilogue, int kWarps, int kWarpsPerRow,
          int kRows, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32)
    linear_gemv_vectorized(LinearArgsOf<kPrologueNone, kEpilogue> args) {
  constexpr int kLanes = kWarpsPerRow * 32, kGroups = kWarps / kWarpsPerRow, kResults = kRows * kTokens;
  using Rows = GemvRows<T, kIn, kTokens, kRows, kUnroll, kLanes>;
  const int group = threadIdx.x / kLanes;
  const int row0 = (static_cast<int>(blockIdx.x) * kGroups + group) * kRows;
  Rows rows(static_cast<const T*>(args.weight), row0, kOut, threadIdx.x % kLanes, 0, Rows::kVectors);
  rows.load_prologue();
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();
  constexpr int kStores = ceil_div(kResults, kLanes);  // outputs that a thread stores
  float residual[kStores];
#pragma unroll
  for (int j = 0; j < kStores; ++j) {
    const int i = threadIdx.x % kLanes + j * kLanes, row = row0 + i % kRows;
    residual[j] = i < kResults && row < kOut ? load_residual<T, kOut, kEpilogue>(args, i / kRows, row) : 0;
  }
  rows.main_loop(static_cast<const T*>(args.x));

  __shared__ float partial[kWarps][kResults];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) partial[warp][t * kRows + r] = rows.sum[r][t];
  }
  if constexpr (kWarpsPerRow > 1)
    __syncthreads();
  else
    __syncwarp();
  for (int i = threadIdx.x % kLanes, j = 0; i < kResults; i += kLanes, ++j) {
    const int row = row0 + i % kRows, token = i / kRows;
    if (row < kOut) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarpsPerRow; ++w) sum += partial[group * kWarpsPerRow + w][i];
      Keys::add(token, store_output<T, kOut, kBias, kEpilogue>(args, token, row, sum, residual[j]), row);
    }
  }
  Keys::template write<kWarps * 32>(args);
}

}  // namespace warptune
