// Vectorized SwiGLU.
// Grid: the outputs are one run of vectors, kUnroll per thread, kBlock apart.
// Loads: all vectors of gate and up of a thread are in flight before the first use.
#include "kernels/common/cache_hint.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/swiglu/args.h"
#include "kernels/swiglu/silu.cuh"

namespace warptune {

template <class T, int kIntermediate, int kBlock, int kUnroll, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) swiglu_vectorized(SwigluArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kIntermediate);
  constexpr int kVectors = kIntermediate / kVec;
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll);
  const long long first_token = first / kVectors;
  const int first_vector = static_cast<int>(first - first_token * kVectors) + static_cast<int>(threadIdx.x);
  pdl_launch_dependents();
  pdl_wait();

  Vec<T, kVec> gate[kUnroll], up[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int vector = first_vector + j * kBlock;
    const long long token = first_token + vector / kVectors;
    if (token < args.tokens) {
      const T* from =
          static_cast<const T*>(args.gate_up) + token * (2ll * kIntermediate) + vector % kVectors * kVec;
      gate[j] = load_vec_hint<kVec, kCacheHint>(from);
      up[j] = load_vec_hint<kVec, kCacheHint>(from + kIntermediate);
    }
  }
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int vector = first_vector + j * kBlock;
    const long long token = first_token + vector / kVectors;
    if (token < args.tokens) {
      auto y = to_float(gate[j]);
      const auto u = to_float(up[j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) y[i] = silu(y[i]) * u[i];
      store_vec_hint<kCacheHint>(static_cast<T*>(args.y) + token * kIntermediate + vector % kVectors * kVec,
                                 from_float<T>(y));
    }
  }
}

}  // namespace warptune
