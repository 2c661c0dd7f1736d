// Rounds rows of x to e4m3 with a scale each (activation_scale of packed_weights.h), for fp8 GEMMs.
// Grid: a block per token. A thread has fragments of 16 columns in registers; the block reduces their largest
//   magnitude. Columns are written in the order in which packed weights have 64 of them: a quad of lanes
//   exchanges its fragments.
// `in` is a multiple of 64. PDL: the GEMM starts as the last rows are written.
#include "kernels/common/pdl.cuh"
#include "kernels/common/quantize.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/transpose.cuh"
#include "kernels/linear/packed/quantized_rows.cuh"
#include "kernels/linear/packed_weights.h"

namespace warptune {

template <class T, int kIn>
__global__ void __launch_bounds__(256) linear_quantize_rows(QuantizedLinearArgs args) {
  constexpr int kBlock = 256, kFragments = kIn / 16, kPerThread = ceil_div(kFragments, kBlock);
  static_assert(kFragments % 4 == 0);
  const long long token = blockIdx.x;
  pdl_launch_dependents();
  pdl_wait();
  const T* const x = static_cast<const T*>(args.x) + token * kIn;
  Vec<float, 8> values[kPerThread][2] = {};
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (const int fragment = static_cast<int>(threadIdx.x) + i * kBlock; fragment < kFragments)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        values[i][half] = to_float(load_vec<8>(x + fragment * 16 + half * 8));
#pragma unroll
        for (int k = 0; k < 8; ++k) largest = fmaxf(largest, fabsf(values[i][half][k]));
      }
  const float scale = activation_scale(block_reduce<Max, kBlock>(largest)), inverse = 1 / scale;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    unsigned words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = pack4_fp8(values[i][0][2 * w] * inverse, values[i][1][2 * w] * inverse,
                           values[i][0][2 * w + 1] * inverse, values[i][1][2 * w + 1] * inverse);
    quad_transpose(words, threadIdx.x % 32);
    if (const int fragment = static_cast<int>(threadIdx.x) + i * kBlock; fragment < kFragments)
      store_16_bytes(static_cast<unsigned char*>(args.workspace) + token * kIn + fragment * 16, words);
  }
  if (threadIdx.x == 0) quantized_scales(args, kIn)[token] = scale;
}

}  // namespace warptune
