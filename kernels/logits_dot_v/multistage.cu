// Multistage cp.async P.V on CUDA cores.
// Grid: one block per sequence and kHeads query heads of a KV head, which share the rows of V.
// Loads: tiles of kTile keys of V in kStages stages of shared memory, so that bytes in flight take no
//   registers.
// Sync: cp_async_wait() and one __syncthreads() per tile.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock, int kTile, int kStages, int kLanes,
          int kHeads>
__global__ void __launch_bounds__(kBlock) logits_dot_v_multistage(LogitsDotVArgs args) {
  using Accumulator = PvAccumulator<T, kHeadDim, kBlock, kLanes, kHeads>;
  constexpr int kGroup = kQHeads / kKvHeads, kX = Accumulator::kX, kVectors = Accumulator::kVectors;
  static_assert(kGroup % kHeads == 0);
  [[maybe_unused]] static constexpr int kSharedBytes = kStages * kTile * kHeadDim * sizeof(T);
  extern __shared__ __align__(16) unsigned char shared[];  // kStages tiles
  __shared__ float rows[Accumulator::kWarps * Accumulator::kRow];
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

  Accumulator accumulator;
  for (int tile = 0; tile * kTile < length; ++tile) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the tile has arrived, and all threads have read the one before
    copy(tile + kStages - 1);
    const T* at = tiles + tile % kStages * kTile * kHeadDim;
    for (int i = accumulator.group; i < kTile && tile * kTile + i < length; i += Accumulator::kGroups) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        weight[h] = to_float(logits[static_cast<long long>(h) * args.capacity + tile * kTile + i]);
#pragma unroll
      for (int j = 0; j < Accumulator::kPerLane; ++j)
        if (accumulator.has(j))
          accumulator.add(j, load_vec<kX>(at + i * kHeadDim + accumulator.vector(j) * kX), weight);
    }
  }
  cp_async_wait<0>();  // no copy is in flight when the block ends
  accumulator.reduce(rows, [&](int i, float value) {
    static_cast<T*>(args.out)[row * kHeadDim + i] = from_float<T>(value);
  });
}

}  // namespace warptune
