#pragma once
// Attention on CUDA cores by groups of kLanes lanes: a group takes one key at a time with 16-byte loads,
// holds q and its part of the output in fp32 registers and its own online softmax, so that the key loop has
// shuffles but no barrier. kUnroll keys of K and V per group are in flight before the first is used. kHeads
// query heads share every byte read.
#include "attention_decode/cache.cuh"
#include "common/online_softmax.cuh"
#include "common/reduce.cuh"

namespace warptune {

template <class T, int kHeadDim, bool kDsx, int kHeads, int kLanes, int kUnroll>
struct LaneGroups {
  static constexpr int kX = kVec16<T>;
  static constexpr int kChunks = kHeadDim / kX;  // 16-byte pieces of a row
  static constexpr int kPerLane = ceil_div(kChunks, kLanes);
  static constexpr int kGroups = 32 / kLanes;
  static_assert(kHeadDim % kX == 0 && 32 % kLanes == 0);

  float q[kHeads][kPerLane * kX];  // times scale * log2e
  float out[kHeads][kPerLane * kX];
  SoftmaxState state[kHeads];
  int group, part;  // of this lane

  __device__ __forceinline__ LaneGroups() : group(threadIdx.x % 32 / kLanes), part(threadIdx.x % kLanes) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      state[h] = SoftmaxState::none();
#pragma unroll
      for (int i = 0; i < kPerLane * kX; ++i) q[h][i] = out[h][i] = 0.0f;
    }
  }
  __device__ __forceinline__ int chunk(int j) const { return part + j * kLanes; }
  __device__ __forceinline__ bool has(int j) const { return kChunks % kLanes == 0 || chunk(j) < kChunks; }

  /// From kHeads rows of dtype T (global) or float (shared).
  template <class S>
  __device__ __forceinline__ void load_q(const S* rows, float scale) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) {
          const auto x = to_float(load_vec<kX>(rows + h * kHeadDim + chunk(j) * kX));
#pragma unroll
          for (int i = 0; i < kX; ++i) q[h][j * kX + i] = x[i] * scale;
        }
  }

  /// Keys [first, end), the kWarps warps of the block taking turns.
  template <int kWarps>
  __device__ __forceinline__ void attend(const HeadCache<T, kHeadDim, kDsx>& cache, int first, int end) {
    constexpr int kStrip = kGroups * kUnroll;
    for (int strip = first + static_cast<int>(threadIdx.x) / 32 * kStrip; strip < end;
         strip += kWarps * kStrip) {
      Vec<T, kX> k[kUnroll][kPerLane], v[kUnroll][kPerLane];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
          if (has(j))
            k[u][j] = load_vec_once<kX>(cache.k_at(min_of(key_of(strip, u), end - 1), chunk(j) * kX));
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
          if (has(j))
            v[u][j] = load_vec_once<kX>(cache.v_at(min_of(key_of(strip, u), end - 1), chunk(j) * kX));

      float score[kHeads][kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
          if (has(j)) {
            const auto x = to_float(k[u][j]);
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
              for (int i = 0; i < kX; ++i) score[h][u] += q[h][j * kX + i] * x[i];
          }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float s = warp_reduce<Sum, kLanes>(score[h][u]);
          score[h][u] = key_of(strip, u) < end ? s : -WARPTUNE_INFINITY;
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float max = score[h][0];
#pragma unroll
        for (int u = 1; u < kUnroll; ++u) max = fmaxf(max, score[h][u]);
        const float factor = state[h].raise(max);
#pragma unroll
        for (int i = 0; i < kPerLane * kX; ++i) out[h][i] *= factor;
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) state[h].sum += score[h][u] = state[h].weight(score[h][u]);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
          if (has(j)) {
            const auto x = to_float(v[u][j]);
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
              for (int i = 0; i < kX; ++i) out[h][j * kX + i] += score[h][u] * x[i];
          }
    }
  }

  /// One more key whose rows are in shared memory, for the first group of the warp. The whole warp calls it.
  __device__ __forceinline__ void attend_row(const float* k, const float* v) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float score = 0.0f;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j))
#pragma unroll
          for (int i = 0; i < kX; ++i) score += q[h][j * kX + i] * k[chunk(j) * kX + i];
      score = warp_reduce<Sum, kLanes>(score);
      if (group != 0) score = -WARPTUNE_INFINITY;
      const float factor = state[h].raise(score), weight = state[h].weight(score);
      state[h].sum += weight;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j))
#pragma unroll
          for (int i = 0; i < kX; ++i)
            out[h][j * kX + i] = out[h][j * kX + i] * factor + weight * v[chunk(j) * kX + i];
    }
  }

  /// Merges the groups of the warp and puts its result into shared memory: rows [kHeads][kHeadDim], states.
  __device__ __forceinline__ void store(float* rows, SoftmaxState* states) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float max = state[h].max;
#pragma unroll
      for (int offset = kLanes; offset < 32; offset *= 2)
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, offset));
      const float factor = state[h].raise(max);
      float sum = state[h].sum;
#pragma unroll
      for (int offset = kLanes; offset < 32; offset *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (threadIdx.x % 32 == 0) {
        states[h].max = max;
        states[h].sum = sum;
      }
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
#pragma unroll
        for (int i = 0; i < kX; ++i) {
          float x = out[h][j * kX + i] * factor;
#pragma unroll
          for (int offset = kLanes; offset < 32; offset *= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
          if (group == 0 && has(j)) rows[h * kHeadDim + chunk(j) * kX + i] = x;
        }
    }
  }

 private:
  __device__ __forceinline__ int key_of(int strip, int u) const { return strip + u * kGroups + group; }
};

}  // namespace warptune
