// Vectorized RMSNorm in one pass, kRows tokens per block.
// Grid: one block per kRows tokens; a thread holds vectors of up to kMaxVec elements of every row in
//   registers between the sum of squares and the scaling, so that a row is read once and written once.
// Loads: the weights before pdl_wait(), all rows before the first use. Rows whose length is no multiple of
//   kMaxVec take narrower vectors.
// Sync: one block reduction for all rows.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/args.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) rms_norm_vectorized(RmsNormArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kVectors, kBlock);
  const long long first = static_cast<long long>(blockIdx.x) * kRows;
  const int rows = kRows == 1 ? 1 : static_cast<int>(min(static_cast<long long>(kRows), args.tokens - first));
  const T* x = static_cast<const T*>(args.x) + first * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + first * kHidden;

  Vec<T, kVec> w[kPerThread];
  load_weights<kHidden, kBlock>(w, weight);
  pdl_launch_dependents();
  pdl_wait();

  Vec<T, kVec> in[kRows][kPerThread];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int vector = threadIdx.x + j * kBlock;
      if (vector < kVectors && r < rows)
        in[r][j] = load_vec_hint<kVec, kCacheHint>(x + r * kHidden + vector * kVec);
    }
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
      if (threadIdx.x + j * kBlock < kVectors && r < rows) add_squares(squares[r], in[r][j]);
  normalize_rows<kHidden, kBlock, kCacheHint>(y, in, w, squares, rows, args.eps);
}

}  // namespace warptune
