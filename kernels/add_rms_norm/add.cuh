#pragma once
// The residual add.
#include "kernels/common/vec.cuh"

namespace warptune {

/// a + b, rounded to T: residual_out, and the input of the norm.
template <class T, int N>
__device__ __forceinline__ Vec<T, N> add_rounded(const Vec<T, N>& a, const Vec<T, N>& b) {
  auto f = to_float(a);
  const auto g = to_float(b);
#pragma unroll
  for (int i = 0; i < N; ++i) f[i] += g[i];
  return from_float<T>(f);
}

}  // namespace warptune
