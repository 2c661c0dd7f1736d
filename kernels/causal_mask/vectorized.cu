// Vectorized causal mask: stores only.
// Grid: the mask is one run of vectors, kUnroll per thread, kBlock apart.
#include "kernels/causal_mask/visible.cuh"
#include "kernels/common/cache_hint.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"

namespace warptune {

template <class T, int kMaxQ, int kMaxK, int kBlock, int kUnroll, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) causal_mask_vectorized(CausalMaskArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kMaxK);
  constexpr int kVectors = kMaxK / kVec;
  pdl_launch_dependents();
  pdl_wait();
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll);
  const long long first_row = first / kVectors;
  const int first_vector = static_cast<int>(first - first_row * kVectors) + static_cast<int>(threadIdx.x);
  const long long rows = static_cast<long long>(args.batch) * kMaxQ;
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int vector = first_vector + j * kBlock;
    const long long row = first_row + vector / kVectors;
    if (row < rows) {
      const int k = vector % kVectors * kVec;
      const int visible = visible_keys(args, static_cast<int>(row / kMaxQ), static_cast<int>(row % kMaxQ));
      Vec<float, kVec> x;
#pragma unroll
      for (int i = 0; i < kVec; ++i) x[i] = k + i < visible ? 1.0f : 0.0f;
      store_vec_hint<kCacheHint>(static_cast<T*>(args.mask) + row * kMaxK + k, from_float<T>(x));
    }
  }
}

}  // namespace warptune
