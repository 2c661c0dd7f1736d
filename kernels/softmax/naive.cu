// Naive softmax of rows: the readable baseline.
// Grid: one block per row; a thread reads elements one by one, the row three times (maximum, sum, result).
// Sync: two block reductions.
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/softmax/args.h"

namespace warptune {

template <class T, int kHeads, int kQueries, int kKeys, int kMasked, int kBlock>
__global__ void __launch_bounds__(kBlock) softmax_naive(SoftmaxArgs args) {
  pdl_wait();
  const long long row = blockIdx.x;
  const long long mask_row = row / (1ll * kHeads * kQueries) * kQueries + row % kQueries;
  const T* x = static_cast<const T*>(args.x) + row * kKeys;
  const T* mask = static_cast<const T*>(args.mask) + mask_row * kKeys;
  T* y = static_cast<T*>(args.y) + row * kKeys;
  const auto score = [&](unsigned k) {
    if (kMasked && to_float(mask[k]) == 0.0f) return -WARPTUNE_INFINITY;
    return to_float(x[k]) * args.scale;
  };

  float max_score = -WARPTUNE_INFINITY;
  for (unsigned k = threadIdx.x; k < kKeys; k += kBlock) max_score = fmaxf(max_score, score(k));
  max_score = block_reduce<Max, kBlock>(max_score);
  const bool is_fully_masked = max_score == -WARPTUNE_INFINITY;
  float sum = 0;
  if (!is_fully_masked)
    for (unsigned k = threadIdx.x; k < kKeys; k += kBlock) sum += __expf(score(k) - max_score);
  sum = block_reduce<Sum, kBlock>(sum);
  for (unsigned k = threadIdx.x; k < kKeys; k += kBlock)
    y[k] = from_float<T>(is_fully_masked ? 0.0f : __expf(score(k) - max_score) / sum);
}

}  // namespace warptune
