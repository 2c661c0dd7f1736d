#pragma once
// The producer warp of persistent_step.cuh: loads the tiles of the whole program, one TMA box each, and
// prefetches further tiles into the L2.
#include "scripts/evidence/persistent_step_packets.cuh"

namespace warptune::persistent {

/// A box of a 4D tensor map, and its prefetch into the L2. One thread.
__device__ __forceinline__ void tma_load_4d(void* shared, const TensorMap& map, int x, int y, int z, int w,
                                            Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier)), "l"(l2_evict_first_policy())
      : "memory");
}
__device__ __forceinline__ void tma_prefetch_4d(const TensorMap& map, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(w)
               : "memory");
}

template <class S>
class Producer {
 public:
  __device__ Producer(const Args& args, Shared<S>& shared) : args_(args), s_(shared) {}

  /// One thread.
  __device__ void run() {
    Cursor next{s_.program}, ahead{s_.program};
    for (int i = 0; i < args_.l2_prefetch && !ahead.ended(); ++i) ahead.advance();
    int stage = 0;
    unsigned phase = 0;
    for (; !next.ended(); next.advance()) {
      if (args_.l2_prefetch > 0 && !ahead.ended()) {
        prefetch(ahead);
        ahead.advance();
      }
      wait(s_.empty + stage, phase ^ 1, {args_.stuck, place(0x10, *next.at)});
      load(next, stage);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }

 private:
  /// A tile of the program.
  struct Cursor {
    const Instruction* at;
    int unit = 0, tile = 0;
    __device__ bool ended() const { return at->op == kEnd; }
    __device__ void advance() {
      if (++tile < unit_tiles<S>(at->op)) return;
      tile = 0;
      if (++unit < at->count) return;
      unit = 0;
      ++at;
    }
  };
  /// Where a tile comes from: of weights a box of a tensor map, of a cache the keys.
  __device__ const TensorMap& map(const Instruction& i) const {
    return args_.maps[i.op == kLmHead ? args_.layers * 4 : i.layer * 4 + (i.op == kQkv ? 0 : i.op - 1)];
  }
  __device__ int row(const Cursor& cursor) const {
    return (cursor.at->first + cursor.unit) * (cursor.at->op == kGateUp ? kTileRows / 2 : kTileRows);
  }
  __device__ long long keys(const Cursor& cursor) const {
    const int unit = cursor.at->first + cursor.unit;
    const int key = (unit % S::kSplits * S::kSplitTiles + cursor.tile) * kTileKeys;
    return ((1ll * cursor.at->layer * S::kKvHeads + unit / S::kSplits) * S::kContext + key) * S::kHeadDim;
  }

  __device__ void prefetch(const Cursor& cursor) const {
    if (cursor.at->op == kAttention) {
      bulk_prefetch_l2(args_.k_cache + keys(cursor), kTileBytes / 2);
      bulk_prefetch_l2(args_.v_cache + keys(cursor), kTileBytes / 2);
    } else {
      tma_prefetch_4d(map(*cursor.at), 0, row(cursor), 0, cursor.tile * (kTileK / 64));
    }
  }
  __device__ void load(const Cursor& cursor, int stage) {
    unsigned char* const to = s_.stages[stage];
    mbarrier_arrive_expect_tx(s_.full + stage, kTileBytes);
    if (cursor.at->op == kAttention) {
      bulk_copy_evict_first(to, args_.k_cache + keys(cursor), kTileBytes / 2, s_.full + stage);
      bulk_copy_evict_first(to + kTileBytes / 2, args_.v_cache + keys(cursor), kTileBytes / 2,
                            s_.full + stage);
    } else {
      tma_load_4d(to, map(*cursor.at), 0, row(cursor), 0, cursor.tile * (kTileK / 64), s_.full + stage);
    }
  }

  const Args& args_;
  Shared<S>& s_;
};

}  // namespace warptune::persistent
