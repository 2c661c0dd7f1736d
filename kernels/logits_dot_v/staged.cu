// Idea: rows of V come through shared memory with cp.async, kStages tiles of kTile keys ahead, so that what
// is in flight costs no registers. One block per sequence and kHeads heads of a group.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock, int kTile, int kStages, int kLanes,
          int kHeads>
__global__ void __launch_bounds__(kBlock) logits_dot_v_staged(LogitsDotVArgs args) {
  using Sums = PvAccumulator<T, kHeadDim, kBlock, kLanes, kHeads>;
  constexpr int kGroup = kQHeads / kKvHeads, kX = Sums::kX, kVectors = Sums::kVectors;
  static_assert(kGroup % kHeads == 0);
  extern __shared__ __align__(16) unsigned char shared[];  // kStages tiles
  __shared__ float rows[Sums::kWarps * Sums::kRow];
  T* tiles = reinterpret_cast<T*>(shared);
  pdl_launch_dependents();
  pdl_wait();
  const int first_head = blockIdx.x * kHeads, b = blockIdx.y, length = args.lengths[b];
  const long long row = static_cast<long long>(b) * kQHeads + first_head,
                  kv_row = static_cast<long long>(b) * kKvHeads + first_head / kGroup;
  const T* logits = static_cast<const T*>(args.logits) + row * args.capacity;
  const T* v = static_cast<const T*>(args.v_cache) + kv_row * args.capacity * kHeadDim;
  const auto copy = [&](int tile) {
    for (int item = threadIdx.x; item < kTile * kVectors; item += kBlock) {
      const int key = tile * kTile + item / kVectors;
      if (key < length)
        cp_async_16(tiles + (tile % kStages * kTile * kVectors + item) * kX,
                    v + static_cast<long long>(key) * kHeadDim + item % kVectors * kX);
    }
    cp_async_commit();
  };
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) copy(tile);

  Sums sums;
  for (int tile = 0; tile * kTile < length; ++tile) {
    cp_async_wait<kStages - 2>();
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
        if (sums.has(j)) sums.add(j, load_vec<kX>(at + i * kHeadDim + sums.vector(j) * kX), weight);
    }
  }
  cp_async_wait<0>();  // none of this block is under way when it ends
  sums.reduce(rows, [&](int i, float value) {
    static_cast<T*>(args.out)[row * kHeadDim + i] = from_float<T>(value);
  });
}

}  // namespace warptune
