// Vectorized softmax of rows in one pass.
// Grid: kBlock threads per row; a block of one-warp rows has kRows of them. The row is read once and stays
//   in registers as floats between maximum, sum and result. A fully masked row becomes zeros.
// Sync: two block reductions; none where a row is one warp.
#include "kernels/common/cache_hint.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/softmax/args.h"

namespace warptune {

template <class T, int kHeads, int kQueries, int kKeys, int kMasked, int kBlock, int kRows, int kMaxVec,
          int kCacheHint>
__global__ void __launch_bounds__(kBlock* kRows) softmax_vectorized(SoftmaxArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kKeys);
  constexpr int kVectors = kKeys / kVec;
  constexpr int kPerThread = ceil_div(kVectors, kBlock);
  constexpr long long kSequenceRows = 1ll * kHeads * kQueries;
  static_assert(kRows == 1 || kBlock == 32);
  pdl_launch_dependents();
  pdl_wait();
  const int thread = kRows == 1 ? threadIdx.x : threadIdx.x % kBlock;
  const long long row = static_cast<long long>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kBlock);
  if (kRows > 1 && row >= args.batch * kSequenceRows) return;
  const long long mask_row = row / kSequenceRows * kQueries + row % kQueries;
  const T* x = static_cast<const T*>(args.x) + row * kKeys;
  const T* mask = static_cast<const T*>(args.mask) + mask_row * kKeys;
  T* y = static_cast<T*>(args.y) + row * kKeys;

  Vec<T, kVec> in[kPerThread], seen[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int vector = thread + j * kBlock;
    if (vector < kVectors) {
      in[j] = load_vec_hint<kVec>(x + vector * kVec);
      if constexpr (kMasked) seen[j] = load_vec<kVec>(mask + vector * kVec);  // the heads share it
    }
  }
  Vec<float, kVec> p[kPerThread];
  float max_score = -WARPTUNE_INFINITY;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const bool inside = thread + j * kBlock < kVectors;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      p[j][i] = -WARPTUNE_INFINITY;
      if (inside) {
        bool visible = true;
        if constexpr (kMasked) visible = to_float(seen[j][i]) != 0.0f;
        if (visible) p[j][i] = to_float(in[j][i]) * args.scale;
      }
      max_score = fmaxf(max_score, p[j][i]);
    }
  }
  max_score = block_reduce<Max, kBlock>(max_score);
  if (max_score == -WARPTUNE_INFINITY) max_score = 0;  // fully masked: every exponential is 0
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      p[j][i] = __expf(p[j][i] - max_score);
      sum += p[j][i];
    }
  sum = block_reduce<Sum, kBlock>(sum);
  const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int vector = thread + j * kBlock;
    if (vector < kVectors) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) p[j][i] *= inverse;
      store_vec_hint<kCacheHint>(y + vector * kVec, from_float<T>(p[j]));
    }
  }
}

}  // namespace warptune
