// Vectorized RMSNorm in one pass, with or without a residual add, kRows tokens per block.
// Grid: one block per kRows tokens; a thread holds vectors of up to kMaxVec elements of every row in
//   registers between the sum of squares and the scaling, so that a row is read once and written once. With a
//   residual x and residual are read once, and their sum, which is stored, stays in registers.
// Loads: the weights before pdl_wait(), all rows before the first use. Rows whose length is no multiple of
//   kMaxVec take narrower vectors. A thread reads a vector of residual before it writes the same vector of
//   residual_out, so the two may be the same memory.
// Sync: one block reduction for all rows.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kMaxVec, int kCacheHint, class Args>
__device__ __forceinline__ void normalize_vectorized(const Args& args) {
  constexpr bool kResidual = kHasResidual<Args>;
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kVectors, kBlock);
  const long long first = static_cast<long long>(blockIdx.x) * kRows;
  const int rows = kRows == 1 ? 1 : static_cast<int>(min(static_cast<long long>(kRows), args.tokens - first));
  const NormTensors<T, kHidden, Args> tensors(args, first);

  Vec<T, kVec> w[kPerThread];
  load_weights<kHidden, kBlock>(w, tensors.weight);
  pdl_launch_dependents();
  pdl_wait();

  Vec<T, kVec> in[kRows][kPerThread], residual[kRows][kPerThread];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int vector = threadIdx.x + j * kBlock;
      if (vector < kVectors && r < rows) {
        in[r][j] = load_vec_hint<kVec, kCacheHint>(tensors.x + r * kHidden + vector * kVec);
        if constexpr (kResidual)
          residual[r][j] = load_vec_hint<kVec, kCacheHint>(tensors.residual + r * kHidden + vector * kVec);
      }
    }
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      if constexpr (kResidual) {
        const int vector = threadIdx.x + j * kBlock;
        if (vector < kVectors && r < rows) {
          in[r][j] = add_rounded(in[r][j], residual[r][j]);
          store_vec_hint<kCacheHint>(tensors.residual_out + r * kHidden + vector * kVec, in[r][j]);
          add_squares(squares[r], in[r][j]);
        }
      } else if (threadIdx.x + j * kBlock < kVectors && r < rows) {
        add_squares(squares[r], in[r][j]);
      }
    }
  normalize_rows<kHidden, kBlock, kCacheHint>(tensors.y, in, w, squares, rows, args.eps);
}

template <class T, int kHidden, int kBlock, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) rms_norm_vectorized(RmsNormArgs args) {
  normalize_vectorized<T, kHidden, kBlock, kRows, kMaxVec, kCacheHint>(args);
}
template <class T, int kHidden, int kBlock, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) add_rms_norm_vectorized(AddRmsNormArgs args) {
  normalize_vectorized<T, kHidden, kBlock, kRows, kMaxVec, kCacheHint>(args);
}

}  // namespace warptune
