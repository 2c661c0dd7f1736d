// Naive RMSNorm: the readable baseline.
// Grid: one block per token; a thread reads elements one by one, the row twice (sum of squares, then
//   scaling).
// Sync: one block reduction.
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/rms_norm/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) rms_norm_naive(RmsNormArgs args) {
  pdl_wait();
  const long long row = static_cast<long long>(blockIdx.x) * kHidden;
  const T* x = static_cast<const T*>(args.x) + row;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + row;

  float sum = 0;
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock) sum += to_float(x[i]) * to_float(x[i]);
  const float scale = rsqrtf(block_reduce<Sum, kBlock>(sum) / kHidden + args.eps);
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock)
    y[i] = from_float<T>(to_float(x[i]) * scale * to_float(weight[i]));
}

}  // namespace warptune
