#pragma once
// What the kernels of rms_norm and add_rms_norm share: the tensors, sums of squares and the scaling of rows.
// A kernel is of add_rms_norm where its Args are AddRmsNormArgs.
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/cache_hint.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/rms_norm/args.h"

namespace warptune {

template <class Args>
inline constexpr bool kHasResidual = is_same<Args, AddRmsNormArgs>;

/// The tensors from row `first` on. rms_norm has no residual.
template <class T, int kHidden, class Args>
struct NormTensors {
  const T *x, *weight, *residual = nullptr;
  T *y, *residual_out = nullptr;

  __device__ __forceinline__ NormTensors(const Args& args, long long first) {
    x = static_cast<const T*>(args.x) + first * kHidden;
    if constexpr (kHasResidual<Args>) residual = static_cast<const T*>(args.residual) + first * kHidden;
    weight = static_cast<const T*>(args.weight);
    if constexpr (kHasResidual<Args>) residual_out = static_cast<T*>(args.residual_out) + first * kHidden;
    y = static_cast<T*>(args.y) + first * kHidden;
  }
};

/// a + b, rounded to T: residual_out, and the input of the norm.
template <class T, int N>
__device__ __forceinline__ Vec<T, N> add_rounded(const Vec<T, N>& a, const Vec<T, N>& b) {
  auto f = to_float(a);
  const auto g = to_float(b);
#pragma unroll
  for (int i = 0; i < N; ++i) f[i] += g[i];
  return from_float<T>(f);
}

/// sum += the squares of x's elements.
template <class T, int N>
__device__ __forceinline__ void add_squares(float& sum, const Vec<T, N>& x) {
  const auto f = to_float(x);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += f[i] * f[i];
}

/// y = x * scale * weight for one vector of a row.
template <int kCacheHint, class T, int N>
__device__ __forceinline__ void store_scaled(T* y, const Vec<T, N>& x, float scale, const Vec<T, N>& weight) {
  auto f = to_float(x);
  const auto g = to_float(weight);
#pragma unroll
  for (int i = 0; i < N; ++i) f[i] *= scale * g[i];
  store_vec_hint<kCacheHint>(y, from_float<T>(f));
}

/// Loads the thread's vectors (threadIdx.x + j * kBlock) of the weights. No kernel writes them, so this may
/// come before pdl_wait().
template <int kHidden, int kBlock, class T, int kVec, int kPerThread>
__device__ __forceinline__ void load_weights(Vec<T, kVec> (&w)[kPerThread], const T* weight) {
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int vector = threadIdx.x + j * kBlock;
    if (vector < kHidden / kVec) w[j] = load_vec<kVec>(weight + vector * kVec);
  }
}

/// y = x * w / sqrt(mean(x^2) + eps) for the first `rows` of the kRows rows that the block holds in
/// registers; a thread holds vectors threadIdx.x + j * kBlock. `squares`: the sums over the thread's own
/// vectors; overwritten.
template <int kHidden, int kBlock, int kCacheHint, class T, int kVec, int kRows, int kPerThread>
__device__ __forceinline__ void normalize_rows(T* y, const Vec<T, kVec> (&x)[kRows][kPerThread],
                                               const Vec<T, kVec> (&w)[kPerThread], float (&squares)[kRows],
                                               int rows, float eps) {
  block_reduce_rows<Sum, kBlock>(squares);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float scale = rsqrtf(squares[r] / kHidden + eps);
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int vector = threadIdx.x + j * kBlock;
      if (vector < kHidden / kVec && r < rows)
        store_scaled<kCacheHint>(y + r * kHidden + vector * kVec, x[r][j], scale, w[j]);
    }
  }
}

}  // namespace warptune
