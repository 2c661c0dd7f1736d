// Idea: rows of V come through shared memory with cp.async, kStages tiles of kTile keys ahead, so that what
// is in flight costs no registers. One block per sequence and kHeads heads of a group.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/value_sums.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock, int kTile, int kStages, int kLanes,
          int kHeads>
__global__ void __launch_bounds__(kBlock) logits_dot_v_staged(LogitsDotVArgs args) {
  using Sums = ValueSums<T, kHeadDim, kBlock, kLanes, kHeads>;
  constexpr int kGroup = kQHeads / kKvHeads, kX = Sums::kX, kChunks = Sums::kChunks;
  static_assert(kGroup % kHeads == 0);
  extern __shared__ __align__(16) unsigned char shared[];  // kStages tiles
  __shared__ float rows[Sums::kWarps * Sums::kRow];
  T* tiles = reinterpret_cast<T*>(shared);
  pdl_launch_next();
  pdl_wait();
  const int first_head = blockIdx.x * kHeads, b = blockIdx.y, length = args.lengths[b];
  const long long row = static_cast<long long>(b) * kQHeads + first_head,
                  kv_row = static_cast<long long>(b) * kKvHeads + first_head / kGroup;
  const T* logits = static_cast<const T*>(args.logits) + row * args.capacity;
  const T* v = static_cast<const T*>(args.v_cache) + kv_row * args.capacity * kHeadDim;
  const auto copy = [&](int tile) {
    for (int item = threadIdx.x; item < kTile * kChunks; item += kBlock) {
      const int key = tile * kTile + item / kChunks;
      if (key < length)
        copy_async16(tiles + (tile % kStages * kTile * kChunks + item) * kX,
                     v + static_cast<long long>(key) * kHeadDim + item % kChunks * kX);
    }
    copy_async_commit();
  };
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) copy(tile);

  Sums sums;
  for (int tile = 0; tile * kTile < length; ++tile) {
    copy_async_wait<kStages - 2>();
    __syncthreads();  // the tile is there, and the one before it has been read
    copy(tile + kStages - 1);
    const T* at = tiles + tile % kStages * kTile * kHeadDim;
    for (int i = sums.group; i < kTile && tile * kTile + i < length; i += Sums::kGroups) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        weight[h] = to_float(logits[static_cast<long long>(h) * args.capacity + tile * kTile + i]);
#pragma unroll
      for (int j = 0; j < Sums::kPerLane; ++j)
        if (sums.has(j)) sums.add(j, load_vec<kX>(at + i * kHeadDim + sums.chunk(j) * kX), weight);
    }
  }
  copy_async_wait<0>();  // none of this block is under way when it ends
  sums.merge(rows, [&](int i, float value) {
    static_cast<T*>(args.out)[row * kHeadDim + i] = from_float<T>(value);
  });
}

}  // namespace warptune
