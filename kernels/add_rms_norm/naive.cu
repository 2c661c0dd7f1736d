// Naive residual add + RMSNorm: the readable baseline.
// Grid: one block per token; a thread reads elements one by one. The sum is written to residual_out and
//   read back from it.
// Sync: one block reduction.
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) add_rms_norm_naive(AddRmsNormArgs args) {
  pdl_wait();
  const long long row = static_cast<long long>(blockIdx.x) * kHidden;
  const T* x = static_cast<const T*>(args.x) + row;
  const T* residual = static_cast<const T*>(args.residual) + row;
  const T* weight = static_cast<const T*>(args.weight);
  T* out = static_cast<T*>(args.residual_out) + row;
  T* y = static_cast<T*>(args.y) + row;

  float sum = 0;
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock) {
    out[i] = from_float<T>(to_float(x[i]) + to_float(residual[i]));
    sum += to_float(out[i]) * to_float(out[i]);
  }
  const float scale = rsqrtf(block_reduce<Sum, kBlock>(sum) / kHidden + args.eps);
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock)
    y[i] = from_float<T>(to_float(out[i]) * scale * to_float(weight[i]));
}

}  // namespace warptune
