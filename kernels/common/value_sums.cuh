#pragma once
// Rows of K or V by groups of lanes: kLanes lanes take a row in 16-byte pieces, the groups of the block take
// different rows; and sums over rows of V for kHeads query heads that share them.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kHeadDim, int kBlock, int kLanes>
struct RowLanes {
  static constexpr int kX = kVec16<T>, kChunks = kHeadDim / kX, kPerLane = ceil_div(kChunks, kLanes);
  static constexpr int kGroups = kBlock / kLanes, kWarps = kBlock / 32;
  static_assert(kHeadDim % kX == 0 && 32 % kLanes == 0);

  int group = threadIdx.x / kLanes, part = threadIdx.x % kLanes;  // which rows, and where in them

  __device__ __forceinline__ int chunk(int j) const { return part + j * kLanes; }
  __device__ __forceinline__ bool has(int j) const { return kChunks % kLanes == 0 || chunk(j) < kChunks; }
};

template <class T, int kHeadDim, int kBlock, int kLanes, int kHeads>
struct ValueSums : RowLanes<T, kHeadDim, kBlock, kLanes> {
  using Lanes = RowLanes<T, kHeadDim, kBlock, kLanes>;
  using Lanes::kX, Lanes::kPerLane, Lanes::kWarps, Lanes::chunk, Lanes::has;
  static constexpr int kRow = kHeads * kHeadDim;

  float sums[kHeads][kPerLane * kX] = {};

  /// Piece j of a row of V, whose weights are `weight`.
  __device__ __forceinline__ void add(int j, const Vec<T, kX>& piece, const float (&weight)[kHeads]) {
    const auto x = to_float(piece);
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int i = 0; i < kX; ++i) sums[h][j * kX + i] += weight[h] * x[i];
  }
  /// The block's sums, element by element, to put(element of the heads' rows, value). Shared memory: rows
  /// [kWarps][kRow].
  template <class Put>
  __device__ __forceinline__ void merge(float* rows, Put put) {
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
            rows[threadIdx.x / 32 * kRow + h * kHeadDim + chunk(j) * kX + i] = x;
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
