#pragma once
// Idea: persistent blocks draw their work from a counter, the longest first, each item near the end of the
// one before it, so that they end together.
#include "kernels/attention_prefill/sequence.cuh"

namespace warptune {

/// A tile of queries of a head, and the tiles of keys they walk over, `first_tile` and on.
struct Work {
  int head, batch, first_row, rows, first_tile, tiles, masked;
  Sequence sequence;

  static constexpr int kNone = -1;  // as a head: there is no more
  __device__ __forceinline__ int last_tile() const { return first_tile + tiles - 1; }
};

/// Item `index` of the tiles of queries of batch * kQHeads heads: kTogether heads at a time, which share the
/// L2; among them the longest tiles first.
template <class S, int kTileM, int kTileN, int kTogether>
__device__ __forceinline__ Work find_work(const AttentionPrefillArgs& args, int index) {
  const int heads = args.batch * S::kQHeads, tiles = ceil_div(args.q_len, kTileM);
  const int section = index / (kTogether * tiles), in_section = index - section * (kTogether * tiles);
  const int together = min(kTogether, heads - section * kTogether);
  const int nth = in_section / together;
  const int head = section * kTogether + in_section - nth * together;
  Work work;
  work.batch = head / S::kQHeads;
  work.head = head % S::kQHeads;
  work.first_row = (S::kCausal != 0 ? tiles - 1 - nth : nth) * kTileM;
  work.sequence = load_sequence(args, work.batch);
  work.rows = min(kTileM, work.sequence.q_len - work.first_row);
  work.first_tile = work.tiles = work.masked = 0;
  if (work.rows <= 0) return work;
  const int most = max(0, visible_keys<S::kCausal>(work.sequence, work.first_row + work.rows - 1));
  const int least = max(0, visible_keys<S::kCausal>(work.sequence, work.first_row));
  work.first_tile = first_visible<S>(args, work.sequence, work.first_row) / kTileN;
  work.tiles = max(0, ceil_div(most, kTileN) - work.first_tile);
  work.masked = S::kWindow ? work.tiles : work.tiles - least / kTileN;
  return work;
}

/// The items of a block, drawn by one thread: the first is its own, then whatever comes next when it asks,
/// which it does late, so that blocks with long items take fewer. The workspace is the counter: an int, zero
/// before and after.
template <class S, int kTileM, int kTileN, int kTogether>
struct WorkList {
  const AttentionPrefillArgs& args;
  const int items;
  int drawn;

  __device__ __forceinline__ explicit WorkList(const AttentionPrefillArgs& args)
      : args(args),
        items(args.batch * S::kQHeads * ceil_div(args.q_len, kTileM)),
        drawn(static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x)) {}

  __device__ __forceinline__ int* counter() const { return static_cast<int*>(args.workspace); }

  /// Asks for an item, once per item taken; take() waits for the answer, a trip to the L2.
  __device__ __forceinline__ void ask() { drawn = atomicAdd(counter(), 1); }
  /// The item asked for, or where it has nothing to store the next that has.
  __device__ __forceinline__ Work& take(Work& work) {
    for (;; ask()) {
      if (drawn == items - 1) *counter() = 0;
      const int item = drawn + gridDim.x;
      if (item >= items) {
        work.head = Work::kNone;
        return work;
      }
      work = find_work<S, kTileM, kTileN, kTogether>(args, item);
      if (work.rows > 0 || S::kLse) return work;
    }
  }
};

}  // namespace warptune
