// Naive RMSNorm, with or without a residual add: the readable baseline.
// Grid: one block per token; a thread reads elements one by one, the row twice (sum of squares, then
//   scaling). With a residual the sum is written to residual_out and read back from it.
// Sync: one block reduction.
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kBlock, class Args>
__device__ __forceinline__ void normalize_naive(const Args& args) {
  constexpr bool kResidual = kHasResidual<Args>;
  pdl_wait();
  const NormTensors<T, kHidden, Args> row(args, blockIdx.x);
  const T* const in = kResidual ? row.residual_out : row.x;

  float sum = 0;
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock) {
    if constexpr (kResidual)
      row.residual_out[i] = from_float<T>(to_float(row.x[i]) + to_float(row.residual[i]));
    sum += to_float(in[i]) * to_float(in[i]);
  }
  const float scale = rsqrtf(block_reduce<Sum, kBlock>(sum) / kHidden + args.eps);
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock)
    row.y[i] = from_float<T>(to_float(in[i]) * scale * to_float(row.weight[i]));
}

template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) rms_norm_naive(RmsNormArgs args) {
  normalize_naive<T, kHidden, kBlock>(args);
}
template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) add_rms_norm_naive(AddRmsNormArgs args) {
  normalize_naive<T, kHidden, kBlock>(args);
}

}  // namespace warptune
