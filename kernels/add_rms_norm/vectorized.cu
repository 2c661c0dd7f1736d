// Idea: kRows tokens per block; x and residual are read once with wide loads, their sum is stored at once and
// kept in registers for the scaling, so that traffic is the floor: two reads, two writes. All rows are in
// flight together and share one barrier and the weights. Each thread reads a piece of residual before it
// writes the same piece of residual_out, so the two may be the same memory.
#include "kernels/add_rms_norm/add.cuh"
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kBlock) add_rms_norm_vectorized(AddRmsNormArgs args) {
  constexpr int kVec = vec_width(kVecWanted, kHidden);
  constexpr int kPieces = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kPieces, kBlock);
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
      const int piece = threadIdx.x + j * kBlock;
      if (piece < kPieces && r < rows) {
        sum[r][j] = load_vec_hint<kVec, kStore>(x + r * kHidden + piece * kVec);
        other[r][j] = load_vec_hint<kVec, kStore>(residual + r * kHidden + piece * kVec);
      }
    }
  float squares[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int piece = threadIdx.x + j * kBlock;
      if (piece < kPieces && r < rows) {
        sum[r][j] = add_rounded(sum[r][j], other[r][j]);
        store_vec_hint<kStore>(out + r * kHidden + piece * kVec, sum[r][j]);
        add_squares(squares[r], sum[r][j]);
      }
    }
  normalize_rows<kHidden, kBlock, kStore>(y, sum, w, squares, rows, args.eps);
}

}  // namespace warptune
