#pragma once
// What the products fuse: RMSNorm of x before them, bias, residual and SwiGLU after them (argmax:
// argmax.cuh), and the halves of an RMSNorm that is split between two products.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"
#include "kernels/swiglu/silu.cuh"

namespace warptune {

template <bool kFused, bool kArgmax, bool kSplitNorm>
struct LinearArgsType {
  using type = LinearArgs;
};
template <>
struct LinearArgsType<true, false, false> {
  using type = FusedLinearArgs;
};
template <>
struct LinearArgsType<true, true, false> {
  using type = ArgmaxLinearArgs;
};
template <bool kArgmax>
struct LinearArgsType<true, kArgmax, true> {
  using type = SplitNormLinearArgs;
};
/// The struct of a problem. That of a plain product is the smallest.
template <int kPrologue, int kEpilogue>
using LinearArgsOf =
    typename LinearArgsType<kPrologue != kPrologueNone || kEpilogue != kEpilogueNone,
                            kEpilogue == kEpilogueArgmax,
                            kPrologue == kPrologueRmsScale || kEpilogue == kEpilogueAddRms>::type;

/// Whether an epilogue adds a residual.
template <int kEpilogue>
inline constexpr bool kAddsResidual = kEpilogue == kEpilogueAdd || kEpilogue == kEpilogueAddRms;

/// The row of weight behind row r of kRows rows that compute the outputs from `first` on: with SwiGLU half of
/// the rows are gates, the other half ups.
template <int kOut, int kEpilogue, int kRows>
__device__ __forceinline__ long long weight_row(long long first, int r) {
  if constexpr (kEpilogue == kEpilogueSwiglu)
    return r < kRows / 2 ? first + r : kOut + first + r - kRows / 2;
  else
    return first + r;
}

/// The residual of one output, 0 without that epilogue. Load it before the main loop: behind it, its latency
/// would end every group of rows.
template <class T, int kOut, int kEpilogue, class Args>
__device__ __forceinline__ float load_residual(const Args& args, int token, int o) {
  if constexpr (kAddsResidual<kEpilogue>)
    return to_float(static_cast<const T*>(args.residual)[static_cast<long long>(token) * kOut + o]);
  else
    return 0;
}

/// Epilogue of one output: adds bias and residual, and stores. Returns what it stores.
template <class T, int kOut, int kBias, int kEpilogue, class Args>
__device__ __forceinline__ T store_output(const Args& args, int token, int o, float y, float residual) {
  if constexpr (kBias != 0) y += to_float(static_cast<const T*>(args.bias)[o]);
  if constexpr (kAddsResidual<kEpilogue>) y += residual;
  const T rounded = from_float<T>(y);
  static_cast<T*>(args.y)[static_cast<long long>(token) * kOut + o] = rounded;
  return rounded;
}

/// Copies the norm's weight to shared memory. It depends on no kernel: call it before pdl_wait().
template <class T, int kIn, int kThreads>
__device__ __forceinline__ void load_norm_weight(T* shared, const void* norm_weight) {
  constexpr int kVec = vec_width<T>(kIn);
  for (int i = threadIdx.x; i < kIn / kVec; i += kThreads)
    store_vec<kVec>(shared + i * kVec, load_vec<kVec>(static_cast<const T*>(norm_weight) + i * kVec));
}

/// Prologue: x [kTokens, kIn] from global to shared memory as rms_norm(x) * norm_weight, rounded to T. Each
/// thread reads only the norm weights that it has copied itself with load_norm_weight(). All threads of the
/// block call it, once; it ends with a barrier.
template <class T, int kTokens, int kIn, int kThreads>
__device__ __forceinline__ void load_normalized_x(T* shared, const void* x, const T* norm_weight, float eps) {
  constexpr int kVec = vec_width<T>(kIn), kVectors = kIn / kVec;
  float squares[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    squares[t] = 0;
    for (int i = threadIdx.x; i < kVectors; i += kThreads) {
      const auto raw = load_vec<kVec>(static_cast<const T*>(x) + t * kIn + i * kVec);
      store_vec<kVec>(shared + t * kIn + i * kVec, raw);
      const auto v = to_float(raw);
#pragma unroll
      for (int j = 0; j < kVec; ++j) squares[t] = fmaf(v[j], v[j], squares[t]);
    }
  }
  block_reduce_rows<Sum, kThreads, kTokens>(squares);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    const float scale = rsqrtf(squares[t] / kIn + eps);
    for (int i = threadIdx.x; i < kVectors; i += kThreads) {  // the vectors that this thread has copied
      const auto w = to_float(load_vec<kVec>(norm_weight + i * kVec));
      auto v = to_float(load_vec<kVec>(shared + t * kIn + i * kVec));
#pragma unroll
      for (int j = 0; j < kVec; ++j) v[j] *= scale * w[j];
      store_vec<kVec>(shared + t * kIn + i * kVec, from_float<T>(v));
    }
  }
  __syncthreads();
}

/// The product of two pairs of 16-bit floats; -0 is the neutral element of the addition.
template <class T>
__device__ __forceinline__ unsigned multiply_pairs(unsigned a, unsigned b) {
  unsigned y;
  if constexpr (is_same<T, bf16>)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(0x80008000u));
  else
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
/// `sum` and the squares of a pair.
template <class T>
__device__ __forceinline__ float add_squares(float sum, unsigned pair) {
  const auto v = to_float(*reinterpret_cast<const Vec<T, 2>*>(&pair));
  return fmaf(v[0], v[0], fmaf(v[1], v[1], sum));
}

}  // namespace warptune
