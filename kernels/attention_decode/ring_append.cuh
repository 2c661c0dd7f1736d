#pragma once
// The fused step before attention for the ring variants, in parts that follow what they wait for: the table
// of frequencies at once, the fused qkv row when the kernel before has ended, angles while it comes (bias
// added, q and k rotated, half-split RoPE as in Su et al., "RoFormer", 2021; k and v rounded, or quantised,
// as the cache holds them).
#include "attention_decode/cache.cuh"
#include "common/cosine_sine.cuh"
#include "common/reduce.cuh"

namespace warptune {

/// The new rows of kHeads query heads, q as elements of Q.
template <class P, int kHeads, int kBlock, class Q>
struct RingAppend {
  using T = typename P::T;
  using C = typename P::C;
  static constexpr int kHeadDim = P::kHeadDim, kHalf = kHeadDim / 2;
  static constexpr int kVec = 4, kPerRow = kHalf / kVec;
  /// Elements from a row of q to the next: lanes that read two rows at once meet no bank twice.
  static constexpr int kStride = kHeadDim + 64 / static_cast<int>(sizeof(Q));
  static_assert(kHalf % kVec == 0 && kHalf <= kBlock);

  float2 rotation[kHalf];  // cosine, sine
  alignas(16) Q q[kHeads][kStride];
  float scales[2];  // of the new rows of K and V, where rows have scales

  /// The frequency of this thread's angle, for take(). The last threads have one.
  static __device__ __forceinline__ float frequency(const AttentionDecodeArgs& args) {
    return P::kAppend && angle() < kHalf ? __ldg(args.inv_freq + angle()) : 0.0f;
  }

  /// Takes the new rows of sequence b for the query heads from first_head on. A block that attends to the new
  /// key finds it in the shared rows `k` and `v`; one that writes it puts it into the cache, too. All threads
  /// call; a barrier must follow.
  __device__ __forceinline__ void take(const AttentionDecodeArgs& args, const KvCache<P>& cache, int b,
                                       int first_head, int position, float frequency, bool attends,
                                       bool writes, C* k, C* v) {
    constexpr int kTrips = ceil_div((kHeads + 2) * kPerRow, kBlock), kRows = P::kQHeads + 2 * P::kKvHeads;
    const int kv_head = first_head / P::kGroup, rows = attends ? kHeads + 2 : kHeads;
    const T* qkv = static_cast<const T*>(args.q) + static_cast<long long>(b) * kRows * kHeadDim;
    const T* bias = static_cast<const T*>(args.bias);
    Vec<T, kVec> x[kTrips][2] = {}, added[kTrips][2] = {};  // of both halves of a row
#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip);
      if (row >= rows) continue;
      const int source =
          row < kHeads ? first_head + row : P::kQHeads + (row - kHeads) * P::kKvHeads + kv_head;
      const int at = source * kHeadDim + column_of(trip);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[trip][half] = load_vec<kVec>(qkv + at + half * kHalf);
        if (bias) added[trip][half] = load_vec<kVec>(bias + at + half * kHalf);
      }
    }
    if (angle() < kHalf) rotation[angle()] = cosine_sine(__fmul_rn(static_cast<float>(position), frequency));
    const long long to = writes ? cache.row(position) : 0;
    __syncthreads();

#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), i = column_of(trip), which = row - kHeads;  // 0: k, 1: v, below: q
      Vec<float, kVec> y[2];
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float2 turn = which < 1 ? rotation[i + j] : float2{1.0f, 0.0f};
        const float low = to_float(x[trip][0][j]) + to_float(added[trip][0][j]),
                    high = to_float(x[trip][1][j]) + to_float(added[trip][1][j]);
        y[0][j] = low * turn.x - high * turn.y;
        y[1][j] = high * turn.x + low * turn.y;
      }
      if (which < 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_vec<kVec>(q[row] + i + half * kHalf, from_float<Q>(y[half]));
      }
      float scale = 1.0f, inverse = 1.0f;
      if constexpr (P::kQuantized) {
        scale = which == 0 ? cache.head_k_scale() : cache.head_v_scale();
        float largest = 0.0f;
#pragma unroll
        for (int j = 0; j < 2 * kVec; ++j) {
          float& value = y[j / kVec][j % kVec];
          value = to_float(from_float<T>(value));
          largest = fmaxf(largest, fabsf(value));
        }
        if constexpr (P::kRowScales) {  // the lanes of a row are neighbours
          static_assert(32 % kPerRow == 0);
          scale = warp_reduce<Max, kPerRow>(largest) / (is_same<C, signed char> ? 127.0f : 448.0f);
        }
        inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
      }
      if (which < 0 || row >= rows) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = i + half * kHalf;
#pragma unroll
        for (int j = 0; j < kVec; ++j) y[half][j] *= inverse;
        const auto rounded = from_float<C>(y[half]);
        store_vec<kVec>((which == 0 ? k : v) + at, rounded);
        if (writes) store_vec<kVec>(which == 0 ? cache.k_at(to, at) : cache.v_at(to, at), rounded);
      }
      if (P::kRowScales && i == 0) {
        scales[which] = scale;
        if (writes) (which == 0 ? cache.k_scales : cache.v_scales)[to] = scale;
      }
    }
  }

 private:
  static __device__ __forceinline__ int angle() { return kBlock - 1 - static_cast<int>(threadIdx.x); }
  /// The row (q of each head, k, v) and the first of four columns of its lower half that a trip is about.
  static __device__ __forceinline__ int row_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) / kPerRow;
  }
  static __device__ __forceinline__ int column_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) % kPerRow * kVec;
  }
};

}  // namespace warptune
