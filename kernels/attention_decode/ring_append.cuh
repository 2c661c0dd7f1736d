#pragma once
// The fused step before attention for the ring variants, in two parts: what does not depend on the kernel
// before (angles) and what does (the fused qkv row: bias added, q and k rotated, half-split RoPE as in Su et
// al., "RoFormer", 2021; k and v rounded as the cache holds them).
#include "attention_decode/args.h"
#include "common/vec.cuh"

namespace warptune {

template <int kHeads, int kHeadDim>
struct RingAppend {
  float2 rotation[kHeadDim / 2];  // cosine, sine
  float q[kHeads][kHeadDim];

  __device__ __forceinline__ void rotate_to(const AttentionDecodeArgs& args, int position) {
    for (int i = threadIdx.x; i < kHeadDim / 2; i += blockDim.x)
      sincosf(__fmul_rn(static_cast<float>(position), args.inv_freq[i]), &rotation[i].y, &rotation[i].x);
  }

  /// Takes the new rows of sequence b for kHeads query heads from first_head on. The new k and v go to the
  /// shared rows `k_tile` and `v_tile` (element i at place(i), fours together), and to the cache rows `k_row`
  /// and `v_row` unless null. All threads call, a barrier before (rotate_to) and after.
  template <class T, int kQHeads, int kKvHeads, int kBlock, class Place>
  __device__ __forceinline__ void take(const AttentionDecodeArgs& args, int b, int first_head, T* k_tile,
                                       T* v_tile, T* k_row, T* v_row, Place place) {
    constexpr int kVec = 4, kHalf = kHeadDim / 2, kPerRow = kHalf / kVec, kRows = kQHeads + 2 * kKvHeads;
    static_assert(kHalf % kVec == 0);
    const int kv_head = first_head / (kQHeads / kKvHeads);
    const T* qkv = static_cast<const T*>(args.q) + static_cast<long long>(b) * kRows * kHeadDim;
    const T* bias = static_cast<const T*>(args.bias);
    for (int item = threadIdx.x; item < (kHeads + 2) * kPerRow; item += kBlock) {
      const int row = item / kPerRow, i = item % kPerRow * kVec;
      const int source = row < kHeads ? first_head + row : kQHeads + (row - kHeads) * kKvHeads + kv_head;
      const int at = source * kHeadDim + i;
      auto low = to_float(load_vec<kVec>(qkv + at)), high = to_float(load_vec<kVec>(qkv + at + kHalf));
      if (bias) {
        const auto bias_low = to_float(load_vec<kVec>(bias + at)),
                   bias_high = to_float(load_vec<kVec>(bias + at + kHalf));
#pragma unroll
        for (int j = 0; j < kVec; ++j) low[j] += bias_low[j], high[j] += bias_high[j];
      }
      if (row <= kHeads) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          const float2 turn = rotation[i + j];
          const float x = low[j], y = high[j];
          low[j] = x * turn.x - y * turn.y;
          high[j] = y * turn.x + x * turn.y;
        }
      }
      if (row < kHeads) {
        store_vec<kVec>(q[row] + i, low);
        store_vec<kVec>(q[row] + i + kHalf, high);
        continue;
      }
      const auto first = from_float<T>(low), second = from_float<T>(high);
      T* const tile = row == kHeads ? k_tile : v_tile;
      store_vec<kVec>(tile + place(i), first);
      store_vec<kVec>(tile + place(i + kHalf), second);
      if (T* const cache = row == kHeads ? k_row : v_row) {
        store_vec<kVec>(cache + i, first);
        store_vec<kVec>(cache + i + kHalf, second);
      }
    }
  }
};

}  // namespace warptune
