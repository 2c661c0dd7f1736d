#pragma once
// The fused step before attention: the new rows of q, k, v from one fused qkv row, bias added, q and k
// rotated (half-split RoPE), k and v rounded as the cache holds them.
#include "attention_decode/cache.cuh"

namespace warptune {

/// The new rows a block works with, fp32.
template <int kHeads, int kHeadDim>
struct NewRows {
  float q[kHeads][kHeadDim];
  float k[kHeadDim];
  float v[kHeadDim];
};

/// Fills `rows` (shared) for kHeads query heads from first_head on. A barrier must follow.
template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kHeads, int kBlock>
__device__ __forceinline__ void make_new_rows(const AttentionDecodeArgs& args, int b, int first_head,
                                              int position, NewRows<kHeads, kHeadDim>& rows) {
  constexpr int kHalf = kHeadDim / 2, kRows = kQHeads + 2 * kKvHeads;
  const int kv_head = first_head / (kQHeads / kKvHeads);
  const T* qkv = static_cast<const T*>(args.q) + static_cast<long long>(b) * kRows * kHeadDim;
  const T* bias = static_cast<const T*>(args.bias);
  for (int item = threadIdx.x; item < (kHeads + 2) * kHalf; item += kBlock) {
    const int row = item / kHalf, i = item % kHalf;
    const bool is_q = row < kHeads, is_k = row == kHeads;
    const int from = (is_q   ? first_head + row
                      : is_k ? kQHeads + kv_head
                             : kQHeads + kKvHeads + kv_head) *
                         kHeadDim +
                     i;
    float low = to_float(qkv[from]), high = to_float(qkv[from + kHalf]);
    if (bias) {
      low += to_float(bias[from]);
      high += to_float(bias[from + kHalf]);
    }
    if (is_q || is_k) {
      float sine, cosine;
      sincosf(__fmul_rn(static_cast<float>(position), args.inv_freq[i]), &sine, &cosine);
      const float x = low;
      low = x * cosine - high * sine;
      high = high * cosine + x * sine;
    }
    if (!is_q) {
      low = to_float(from_float<T>(low));
      high = to_float(from_float<T>(high));
    }
    float* to = is_q ? rows.q[row] : is_k ? rows.k : rows.v;
    to[i] = low;
    to[i + kHalf] = high;
  }
}

/// Writes the new k and v at `position`. One block per KV head may do so.
template <int kBlock, class T, int kHeadDim, bool kDsx>
__device__ __forceinline__ void write_new_row(const HeadCache<T, kHeadDim, kDsx>& cache, int position,
                                              const float* k, const float* v) {
  for (int i = threadIdx.x; i < kHeadDim; i += kBlock) {
    *cache.k_at(position, i) = from_float<T>(k[i]);
    *cache.v_at(position, i) = from_float<T>(v[i]);
  }
}

}  // namespace warptune
