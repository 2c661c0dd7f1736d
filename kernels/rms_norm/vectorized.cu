// Idea: kRows tokens per block; each row is read once with wide loads and kept in registers between the sum
// of squares and the scaling, so that traffic is the floor: x once, y once. All rows are in flight together
// and share one barrier and the weights. Rows whose length is no multiple of kVec take narrower accesses.
#include "common/fitting.h"
#include "common/pdl.cuh"
#include "common/reduce_rows.cuh"
#include "common/stream.cuh"
#include "rms_norm/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock, int kRows, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kBlock) rms_norm_vectorized(RmsNormArgs args) {
  constexpr int kVec = fitting_vec(kVecWanted, kHidden);
  constexpr int kPieces = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kPieces, kBlock);
  const long long first = static_cast<long long>(blockIdx.x) * kRows;
  const int rows = kRows == 1 ? 1 : static_cast<int>(min(static_cast<long long>(kRows), args.tokens - first));
  const T* x = static_cast<const T*>(args.x) + first * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + first * kHidden;

  Vec<T, kVec> w[kPerThread];  // does not depend on the kernel before
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int piece = threadIdx.x + j * kBlock;
    if (piece < kPieces) w[j] = load_vec<kVec>(weight + piece * kVec);
  }
  pdl_launch_next();
  pdl_wait();

  Vec<T, kVec> in[kRows][kPerThread];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int piece = threadIdx.x + j * kBlock;
      if (piece < kPieces && r < rows)
        in[r][j] = load_vec_stream<kVec, kStore>(x + r * kHidden + piece * kVec);
    }
  float scale[kRows];  // first the sums of squares
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    scale[r] = 0;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
      if (threadIdx.x + j * kBlock < kPieces && r < rows) {
        const auto f = to_float(in[r][j]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) scale[r] += f[i] * f[i];
      }
  }
  block_reduce_rows<Sum, kBlock>(scale);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    scale[r] = rsqrtf(scale[r] / kHidden + args.eps);
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int piece = threadIdx.x + j * kBlock;
      if (piece < kPieces && r < rows) {
        auto f = to_float(in[r][j]);
        const auto g = to_float(w[j]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) f[i] *= scale[r] * g[i];
        store_vec_by<kStore>(y + r * kHidden + piece * kVec, from_float<T>(f));
      }
    }
  }
}

}  // namespace warptune
