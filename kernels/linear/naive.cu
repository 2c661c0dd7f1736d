// Naive GEMM on CUDA cores: the readable baseline.
// Grid: one thread per output element (token, output row); a thread reads both rows element by element and
//   accumulates in fp32. A fused norm takes every thread one more pass over x, SwiGLU a second row of weight.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

template <class T, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kBlock>
__global__ void __launch_bounds__(kBlock) linear_naive(LinearArgsOf<kPrologue, kEpilogue> args) {
  pdl_wait();
  const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= static_cast<long long>(args.tokens) * kOut) return;
  const long long token = i / kOut, o = i % kOut;
  const T* x = static_cast<const T*>(args.x) + token * kIn;
  const T* weight = static_cast<const T*>(args.weight) + o * kIn;
  const auto dot = [&](const T* row) {
    float sum = 0;
    for (int k = 0; k < kIn; ++k) {
      float value = to_float(x[k]);
      if constexpr (kPrologue == kPrologueRmsNorm)
        value *= to_float(static_cast<const T*>(args.norm_weight)[k]);
      sum += value * to_float(row[k]);
    }
    return sum;
  };
  float scale = 1;
  if constexpr (kPrologue == kPrologueRmsNorm) {
    float squares = 0;
    for (int k = 0; k < kIn; ++k) squares += to_float(x[k]) * to_float(x[k]);
    scale = rsqrtf(squares / kIn + args.eps);
  }
  float y = scale * dot(weight);
  if constexpr (kEpilogue == kEpilogueSwiglu)
    y = silu(y) * scale * dot(weight + static_cast<long long>(kOut) * kIn);
  store_output<T, kOut, kBias, kEpilogue>(args, static_cast<int>(token), static_cast<int>(o), y,
                                          load_residual<T, kOut, kEpilogue>(args, token, o));
}

}  // namespace warptune
