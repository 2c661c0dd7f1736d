#pragma once
// Dynamic persistent tile scheduler with L2 swizzle, longest tiles first (LPT), as in FlashAttention-3: a
// persistent block fetches its next work tile from an atomic counter while it loads the last K/V tile of the
// current one, so that all blocks end together.
#include "kernels/attention_prefill/problem.cuh"

namespace warptune {

/// A tile of queries of a head, and the K/V tiles [first_tile, first_tile + tiles) that it visits from
/// last_tile() down to first_tile. The first `masked` visited, those of the highest keys, need a mask (with a
/// window: all).
struct WorkTile {
  int head, batch, first_row, rows, first_tile, tiles, masked;
  Sequence sequence;

  static constexpr int kEnd = -1;  // as a head: there is no more work
  __device__ __forceinline__ int last_tile() const { return first_tile + tiles - 1; }
};

/// Work tile `index` in scheduling order. L2 swizzle: sections of kL2Swizzle heads, whose K and V share the
/// L2; within a section the longest tiles of all its heads come first.
template <class Shape, int kTileM, int kTileN, int kL2Swizzle>
__device__ __forceinline__ WorkTile decode_work_tile(const AttentionPrefillArgs& args, int index) {
  const int heads = args.batch * Shape::kQHeads, tiles = ceil_div(args.q_len, kTileM);
  const int section = index / (kL2Swizzle * tiles), in_section = index - section * (kL2Swizzle * tiles);
  const int section_heads = min(kL2Swizzle, heads - section * kL2Swizzle);
  const int nth = in_section / section_heads;
  const int head = section * kL2Swizzle + in_section - nth * section_heads;
  WorkTile work;
  work.batch = head / Shape::kQHeads;
  work.head = head % Shape::kQHeads;
  work.first_row = longest_first<Shape>(nth, tiles) * kTileM;
  work.sequence = load_sequence(args, work.batch);
  work.rows = min(kTileM, work.sequence.q_len - work.first_row);
  work.first_tile = work.tiles = work.masked = 0;
  if (work.rows <= 0) return work;
  const int max_key_end = max(0, key_end<Shape>(args, work.sequence, work.first_row + work.rows - 1));
  const int min_key_end = max(0, key_end<Shape>(args, work.sequence, work.first_row));
  work.first_tile = key_begin<Shape>(args, work.sequence, work.first_row) / kTileN;
  work.tiles = max(0, ceil_div(max_key_end, kTileN) - work.first_tile);
  work.masked = Shape::kWindow ? work.tiles : work.tiles - min_key_end / kTileN;
  return work;
}

/// The work tiles of a block, fetched by one thread: the first is static (blockIdx.x), later ones come from
/// the atomic counter. The workspace is the counter: an int, zero before and after the kernel.
template <class Shape, int kTileM, int kTileN, int kL2Swizzle>
struct DynamicTileScheduler {
  const AttentionPrefillArgs& args;
  const int work_tiles;
  int next;  // index of the next work tile minus gridDim.x: what the atomic returns

  __device__ __forceinline__ explicit DynamicTileScheduler(const AttentionPrefillArgs& args)
      : args(args),
        work_tiles(args.batch * Shape::kQHeads * ceil_div(args.q_len, kTileM)),
        next(static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x)) {}

  __device__ __forceinline__ int* counter() const { return static_cast<int*>(args.workspace); }

  /// Issues the atomic, once per work tile; get_next_work() waits for its result (an L2 round trip).
  __device__ __forceinline__ void prefetch_next_work() { next = atomicAdd(counter(), 1); }
  /// The work tile that was fetched; if it has nothing to store, the next one that has.
  __device__ __forceinline__ WorkTile& get_next_work(WorkTile& work) {
    for (;; prefetch_next_work()) {
      // Each block fetches once past the end, so that work_tiles - 1 is the last value.
      if (next == work_tiles - 1) *counter() = 0;
      const int index = next + gridDim.x;
      if (index >= work_tiles) {
        work.head = WorkTile::kEnd;
        return work;
      }
      work = decode_work_tile<Shape, kTileM, kTileN, kL2Swizzle>(args, index);
      if (work.rows > 0 || Shape::kLse) return work;
    }
  }
};

}  // namespace warptune
