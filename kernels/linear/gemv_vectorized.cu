// Vectorized GEMV with register prefetch, for few tokens (the time is that of reading the weights once).
// Grid: a block has kWarps / kWarpsPerRow groups; a group of kWarpsPerRow warps computes kRows output rows.
// Loads: 16-byte read-only loads without an L1 line, kUnroll per row and thread in flight (gemv.cuh); the
//   first ones are issued before pdl_wait().
// L2 prefetch: the last blocks prefetch kTailPrefetch MiB of the next GEMM's weights.
// Sync: the warps of a group add their partial sums in shared memory, one __syncthreads(). Argmax:
//   argmax.cuh.
// Fused: RMSNorm multiplies x by the weight of the norm on the way, sums its squares, and scales the outputs;
//   with SwiGLU half of the rows of a group are gates, the other half their ups.
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/gemv.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWarps,
          int kWarpsPerRow, int kRows, int kUnroll, int kTailPrefetch>
__global__ void __launch_bounds__(kWarps * 32)
    linear_gemv_vectorized(LinearArgsOf<kPrologue, kEpilogue, kTailPrefetch> args) {
  constexpr bool kNorm = kPrologue == kPrologueRmsNorm, kSwiglu = kEpilogue == kEpilogueSwiglu;
  constexpr int kLanes = kWarpsPerRow * 32, kGroups = kWarps / kWarpsPerRow;
  constexpr int kOutputs = kSwiglu ? kRows / 2 : kRows, kResults = kOutputs * kTokens;  // per group
  static_assert(!kSwiglu || kRows % 2 == 0);
  using Rows = GemvRows<T, kIn, kTokens, kRows, kUnroll, kLanes, kNorm>;
  const int group = threadIdx.x / kLanes;
  const int row0 = (static_cast<int>(blockIdx.x) * kGroups + group) * kOutputs;
  // Outputs past the last are read as the last one.
  const auto source_row = [=](int r) {
    return min_of(row0 + r % kOutputs, kOut - 1) + (kSwiglu && r >= kOutputs ? kOut : 0);
  };
  Rows rows(static_cast<const T*>(args.weight), source_row, threadIdx.x % kLanes, 0, Rows::kVectors);
  rows.load_prologue();
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();
  constexpr int kStores = ceil_div(kResults, kLanes);  // outputs that a thread stores
  float residual[kStores];
#pragma unroll
  for (int j = 0; j < kStores; ++j) {
    const int i = threadIdx.x % kLanes + j * kLanes, row = row0 + i % kOutputs;
    residual[j] = i < kResults && row < kOut ? load_residual<T, kOut, kEpilogue>(args, i / kOutputs, row) : 0;
  }
  const T* norm_weight = nullptr;
  if constexpr (kNorm) norm_weight = static_cast<const T*>(args.norm_weight);
  rows.main_loop(static_cast<const T*>(args.x), norm_weight);
  prefetch_next_weight_at_end<kTailPrefetch, kWarps * 32>(args);

  __shared__ float partial[kWarps][kRows * kTokens];
  __shared__ float squares[kNorm ? kWarps : 1][kTokens];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) partial[warp][t * kRows + r] = rows.sum[r][t];
    if constexpr (kNorm) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) squares[warp][t] = rows.squares[t];
    }
  }
  if constexpr (kWarpsPerRow > 1)
    __syncthreads();
  else
    __syncwarp();
  for (int i = threadIdx.x % kLanes, j = 0; i < kResults; i += kLanes, ++j) {
    const int row = row0 + i % kOutputs, token = i / kOutputs;
    if (row < kOut) {
      const int at = kSwiglu ? token * kRows + i % kOutputs : i;  // with SwiGLU of the gate
      float sum = 0;
      [[maybe_unused]] float up = 0, squares_of_x = 0;
#pragma unroll
      for (int w = 0; w < kWarpsPerRow; ++w) {
        sum += partial[group * kWarpsPerRow + w][at];
        if constexpr (kSwiglu) up += partial[group * kWarpsPerRow + w][at + kOutputs];
        if constexpr (kNorm) squares_of_x += squares[group * kWarpsPerRow + w][token];
      }
      if constexpr (kNorm) {
        const float scale = rsqrtf(squares_of_x / kIn + args.eps);
        sum *= scale;
        up *= scale;
      }
      if constexpr (kSwiglu) sum = up * silu(sum);
      Keys::add(token, store_output<T, kOut, kBias, kEpilogue>(args, token, row, sum, residual[j]), row);
    }
  }
  Keys::template write<kWarps * 32>(args);
}

}  // namespace warptune
