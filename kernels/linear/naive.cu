// Naive GEMM on CUDA cores: the readable baseline.
// Grid: one thread per output element (token, output row); a thread reads both rows element by element and
//   accumulates in fp32.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/args.h"

namespace warptune {

template <class T, int kIn, int kOut, int kBias, int kBlock>
__global__ void __launch_bounds__(kBlock) linear_naive(LinearArgs args) {
  pdl_wait();
  const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= static_cast<long long>(args.tokens) * kOut) return;
  const long long token = i / kOut, o = i % kOut;
  const T* x = static_cast<const T*>(args.x) + token * kIn;
  const T* weight = static_cast<const T*>(args.weight) + o * kIn;
  float sum = 0;
  for (int k = 0; k < kIn; ++k) sum += to_float(x[k]) * to_float(weight[k]);
  if constexpr (kBias != 0) sum += to_float(static_cast<const T*>(args.bias)[o]);
  static_cast<T*>(args.y)[i] = from_float<T>(sum);
}

}  // namespace warptune
