#pragma once
// P.V on CUDA cores: groups of kLanes threads own rows of K or V, a thread 16-byte vectors of its row, and
// accumulate weighted rows of V for the kHeads query heads that share a KV head.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// A row is kVectors vectors of kX elements; lane `part` of a group owns vectors part, part + kLanes, ...
template <class T, int kHeadDim, int kBlock, int kLanes>
struct ThreadGroups {
  static constexpr int kX = kVec16<T>, kVectors = kHeadDim / kX, kPerLane = ceil_div(kVectors, kLanes);
  static constexpr int kGroups = kBlock / kLanes, kWarps = kBlock / 32;
  static_assert(kHeadDim % kX == 0 && 32 % kLanes == 0);

  int group = threadIdx.x / kLanes, part = threadIdx.x % kLanes;  // the group, and the lane in it

  __device__ __forceinline__ int vector(int j) const { return part + j * kLanes; }
  __device__ __forceinline__ bool has(int j) const { return kVectors % kLanes == 0 || vector(j) < kVectors; }
};

template <class T, int kHeadDim, int kBlock, int kLanes, int kHeads>
struct PvAccumulator : ThreadGroups<T, kHeadDim, kBlock, kLanes> {
  using Lanes = ThreadGroups<T, kHeadDim, kBlock, kLanes>;
  using Lanes::kX, Lanes::kPerLane, Lanes::kWarps, Lanes::vector, Lanes::has;
  static constexpr int kRow = kHeads * kHeadDim;

  float sums[kHeads][kPerLane * kX] = {};

  /// Adds the thread's vector j of a row of V, times the weight of each head.
  __device__ __forceinline__ void add(int j, const Vec<T, kX>& vector, const float (&weight)[kHeads]) {
    const auto x = to_float(vector);
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int i = 0; i < kX; ++i) sums[h][j * kX + i] += weight[h] * x[i];
  }
  /// Reduces over the block and calls put(element of the heads' rows, value). Shared memory: rows
  /// [kWarps][kRow].
  template <class Put>
  __device__ __forceinline__ void reduce(float* rows, Put put) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
#pragma unroll
        for (int i = 0; i < kX; ++i) {
          float x = sums[h][j * kX + i];
#pragma unroll
          for (int offset = kLanes; offset < 32; offset *= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
          if (threadIdx.x % 32 < kLanes && has(j))
            rows[threadIdx.x / 32 * kRow + h * kHeadDim + vector(j) * kX + i] = x;
        }
    __syncthreads();
    for (int item = threadIdx.x; item < kRow; item += kBlock) {
      float value = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) value += rows[w * kRow + item];
      put(item, value);
    }
  }
};

}  // namespace warptune
