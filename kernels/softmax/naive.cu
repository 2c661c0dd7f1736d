// Idea: one block per row, one element at a time, the row read three times (maximum, sum, result): the
// readable baseline.
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/softmax/args.h"

namespace warptune {

template <class T, int kHeads, int kQueries, int kKeys, int kMasked, int kBlock>
__global__ void __launch_bounds__(kBlock) softmax_naive(SoftmaxArgs args) {
  pdl_wait();
  const long long row = blockIdx.x;
  const long long mask_row = row / (kHeads * kQueries) * kQueries + row % kQueries;
  const T* x = static_cast<const T*>(args.x) + row * kKeys;
  const T* mask = static_cast<const T*>(args.mask) + mask_row * kKeys;
  T* y = static_cast<T*>(args.y) + row * kKeys;
  const auto score = [&](int k) {
    if (kMasked && to_float(mask[k]) == 0.0f) return -WARPTUNE_INFINITY;
    return to_float(x[k]) * args.scale;
  };

  float most = -WARPTUNE_INFINITY;
  for (int k = threadIdx.x; k < kKeys; k += kBlock) most = fmaxf(most, score(k));
  most = block_reduce<Max, kBlock>(most);
  const bool nothing = most == -WARPTUNE_INFINITY;
  float sum = 0;
  if (!nothing)
    for (int k = threadIdx.x; k < kKeys; k += kBlock) sum += __expf(score(k) - most);
  sum = block_reduce<Sum, kBlock>(sum);
  for (int k = threadIdx.x; k < kKeys; k += kBlock)
    y[k] = from_float<T>(nothing ? 0.0f : __expf(score(k) - most) / sum);
}

}  // namespace warptune
