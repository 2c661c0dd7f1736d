// Vectorized residual add + RMSNorm in one pass, kRows tokens per block.
// Grid: one block per kRows tokens. x and residual are read once; their sum is stored and stays in
//   registers for the scaling: two reads and two writes per element.
// Loads: the weights before pdl_wait(), all rows before the first use. A thread reads a vector of residual
//   before it writes the same vector of residual_out, so the two may be the same memory.
// Sync: one block reduction for all rows.
#include "kernels/add_rms_norm/add.cuh"
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) add_rms_norm_vectorized(AddRmsNormArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kVectors, kBlock);
  const long long first = static_cast<long long>(blockIdx.x) * kRows, start = first * kHidden;
  const int rows = kRows == 1 ? 1 : static_cast<int>(min(static_cast<long long>(kRows), args.tokens - first));
  const T* x = static_cast<const T*>(args.x) + start;
  const T* residual = static_cast<const T*>(args.residual) + start;
  const T* weight = static_cast<const T*>(args.weight);
  T* out = static_cast<T*>(args.residual_out) + start;
  T* y = static_cast<T*>(args.y) + start;

  Vec<T, kVec> w[kPerThread];
  load_weights<kHidden, kBlock>(w, weight);
  pdl_launch_dependents();
  pdl_wait();

  Vec<T, kVec> sum[kRows][kPerThread], other[kRows][kPerThread];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int vector = threadIdx.x + j * kBlock;
      if (vector < kVectors && r < rows) {
        sum[r][j] = load_vec_hint<kVec, kCacheHint>(x + r * kHidden + vector * kVec);
        other[r][j] = load_vec_hint<kVec, kCacheHint>(residual + r * kHidden + vector * kVec);
      }
    }
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int vector = threadIdx.x + j * kBlock;
      if (vector < kVectors && r < rows) {
        sum[r][j] = add_rounded(sum[r][j], other[r][j]);
        store_vec_hint<kCacheHint>(out + r * kHidden + vector * kVec, sum[r][j]);
        add_squares(squares[r], sum[r][j]);
      }
    }
  normalize_rows<kHidden, kBlock, kCacheHint>(y, sum, w, squares, rows, args.eps);
}

}  // namespace warptune
