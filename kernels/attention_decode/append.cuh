#pragma once
// Fused RoPE and KV cache append: a block computes its new rows of q, k and v from the fused qkv row (bias
// added, q and k normalized and rotated; k and v rounded or quantized as the cache stores them) in shared
// memory.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/head_norm.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/rope.cuh"

namespace warptune {

/// The new rows that a block works with, in shared memory; with a quantized cache, codes of k and v and the
/// scales of these rows.
template <int kHeads, int kHeadDim>
struct NewRows {
  float q[kHeads][kHeadDim];
  float kv[2][kHeadDim];
  float scales[2];
};

/// Quantizes row `which` (0: k, 1: v). One warp.
template <class P, int kHeads>
__device__ __forceinline__ void quantize_row(const KvCache<P>& cache, int which,
                                             NewRows<kHeads, P::kHeadDim>& rows) {
  using C = typename P::C;
  float* row = rows.kv[which];
  float scale = which == 0 ? cache.head_k_scale() : cache.head_v_scale();
  if constexpr (P::kRowScales) {
    float largest = 0.0f;
    for (int i = threadIdx.x % 32; i < P::kHeadDim; i += 32) largest = fmaxf(largest, fabsf(row[i]));
    scale = warp_reduce<Max>(largest) / (is_same<C, signed char> ? 127.0f : 448.0f);
  }
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (int i = threadIdx.x % 32; i < P::kHeadDim; i += 32) row[i] = to_float(from_float<C>(row[i] * inverse));
  rows.scales[which] = P::kRowScales ? scale : 1.0f;
}

/// The factors of the norms of the query heads and of k, a warp per head. Synchronizes the block.
template <class P, int kHeads, int kBlock>
__device__ __forceinline__ void compute_norm_scales(const typename P::Args& args, const typename P::T* qkv,
                                                    int first_head, float (&scales)[kHeads + 1]) {
  const auto* bias = static_cast<const typename P::T*>(args.bias);
  for (int row = threadIdx.x / 32; row <= kHeads; row += kBlock / 32) {
    const int head = row < kHeads ? first_head + row : P::kQHeads + first_head / P::kGroup;
    const int first = head * P::kHeadDim;
    float squares = 0.0f;
    for (int i = threadIdx.x % 32; i < P::kHeadDim; i += 32) {
      const float x = to_float(qkv[first + i]) + (bias ? to_float(bias[first + i]) : 0.0f);
      squares += x * x;
    }
    squares = warp_reduce<Sum>(squares);
    if (threadIdx.x % 32 == 0) scales[row] = inverse_rms<P::kHeadDim>(squares, args.eps);
  }
  __syncthreads();
}

/// Computes the new rows of query heads first_head to first_head + kHeads - 1 and of their KV head. The
/// caller must synchronize the block before it reads `rows`.
template <class P, int kHeads, int kBlock>
__device__ __forceinline__ void make_new_rows(const typename P::Args& args, const KvCache<P>& cache, int b,
                                              int first_head, int position,
                                              NewRows<kHeads, P::kHeadDim>& rows) {
  using T = typename P::T;
  constexpr int kHalf = P::kHeadDim / 2, kRows = P::kQHeads + 2 * P::kKvHeads;
  // Pair i has the elements i * kStep and i * kStep + kDistance.
  constexpr int kStep = P::kInterleaved ? 2 : 1, kDistance = P::kInterleaved ? 1 : kHalf;
  const int kv_head = first_head / P::kGroup;
  const T* qkv = static_cast<const T*>(args.q) + static_cast<long long>(b) * kRows * P::kHeadDim;
  const T* bias = static_cast<const T*>(args.bias);
  [[maybe_unused]] const float* norm_scales = nullptr;
  if constexpr (P::kNorm) {
    __shared__ float scales[kHeads + 1];
    compute_norm_scales<P, kHeads, kBlock>(args, qkv, first_head, scales);
    norm_scales = scales;
  }
  for (int item = threadIdx.x; item < (kHeads + 2) * kHalf; item += kBlock) {
    const int row = item / kHalf, i = item % kHalf, which = row - kHeads;  // 0: k, 1: v, negative: q
    const int from =
        (which < 0 ? first_head + row : P::kQHeads + which * P::kKvHeads + kv_head) * P::kHeadDim + i * kStep;
    float low = to_float(qkv[from]), high = to_float(qkv[from + kDistance]);
    if (bias) {
      low += to_float(bias[from]);
      high += to_float(bias[from + kDistance]);
    }
    if constexpr (P::kNorm) {
      if (which < 1) {
        const T* weight = static_cast<const T*>(args.qk_norm) + (which < 0 ? 0 : P::kHeadDim) + i * kStep;
        low *= norm_scales[row] * to_float(weight[0]);
        high *= norm_scales[row] * to_float(weight[kDistance]);
      }
    }
    if (which < 1) {
      float inv_freq = args.inv_freq[i], sine, cosine;
      if constexpr (P::kDynamicNtk) inv_freq = ntk_inv_freq(args, position + 1, i, P::kHeadDim, inv_freq);
      sin_cos<P::kFar>(__fmul_rn(static_cast<float>(position), inv_freq), sine, cosine);
      const float x = low;
      low = x * cosine - high * sine;
      high = high * cosine + x * sine;
    }
    if (which >= 0) {
      low = to_float(from_float<T>(low));
      high = to_float(from_float<T>(high));
    }
    float* to = which < 0 ? rows.q[row] : rows.kv[which];
    to[i * kStep] = low;
    to[i * kStep + kDistance] = high;
  }
  if constexpr (P::kQuantized) {
    __syncthreads();
    for (int which = threadIdx.x / 32; which < 2; which += kBlock / 32) quantize_row<P>(cache, which, rows);
  }
}

/// Writes the new k and v to the cache at `position`. One block per KV head calls it.
template <int kBlock, AppendStore kStore = AppendStore::element, class P, int kHeads>
__device__ __forceinline__ void write_new_row(const KvCache<P>& cache, int position,
                                              const NewRows<kHeads, P::kHeadDim>& rows) {
  using C = typename P::C;
  const long long row = cache.row(position);
  if constexpr (kStore == AppendStore::vector) {
    constexpr int kX = kVec16<C>, kVectors = P::kHeadDim / kX;
    for (int item = threadIdx.x; item < 2 * kVectors; item += kBlock) {
      const int which = item / kVectors, i = item % kVectors * kX;
      const auto x = from_float<C>(load_vec<kX>(rows.kv[which] + i));
      store_vec<kX>(which == 0 ? cache.k_at(row, i) : cache.v_at(row, i), x);
    }
  } else {
    for (int i = threadIdx.x; i < P::kHeadDim; i += kBlock) {
      *cache.k_at(row, i) = from_float<C>(rows.kv[0][i]);
      *cache.v_at(row, i) = from_float<C>(rows.kv[1][i]);
    }
  }
  if (P::kRowScales && threadIdx.x == 0) {
    cache.k_scales[row] = rows.scales[0];
    cache.v_scales[row] = rows.scales[1];
  }
}

}  // namespace warptune
