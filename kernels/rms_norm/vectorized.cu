// Idea: kRows tokens per block; each row is read once with wide loads and kept in registers between the sum
// of squares and the scaling, so that traffic is the floor: x once, y once. All rows are in flight together
// and share one barrier and the weights. Rows whose length is no multiple of kVec take narrower accesses.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/args.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kBlock) rms_norm_vectorized(RmsNormArgs args) {
  constexpr int kVec = vec_width(kVecWanted, kHidden);
  constexpr int kPieces = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kPieces, kBlock);
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
      const int piece = threadIdx.x + j * kBlock;
      if (piece < kPieces && r < rows) in[r][j] = load_vec_hint<kVec, kStore>(x + r * kHidden + piece * kVec);
    }
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
      if (threadIdx.x + j * kBlock < kPieces && r < rows) add_squares(squares[r], in[r][j]);
  normalize_rows<kHidden, kBlock, kStore>(y, in, w, squares, rows, args.eps);
}

}  // namespace warptune
