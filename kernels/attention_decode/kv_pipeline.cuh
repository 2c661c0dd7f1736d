#pragma once
// Warp-specialized multistage pipeline of KV tiles with a dynamic tile scheduler (sm_90). Lane i of the
// producer warp fills the kStages-deep ring buffer of consumer warp i with cp.async.bulk. Rows of a tile are
// contiguous in global and shared memory (paged: page_size % kTileKv == 0, so that a tile lies within one
// page), and each byte is read once.
//
// Scheduler: blocks are persistent, one per SM, so that loads continue across work tiles. The first work tile
// of a block is its index; the next ones come from an atomic work counter, because SMs differ in their
// distance to memory.
//
// Loads in flight: the requests of all SMs share one queue to memory. With all stages in flight (26 MB on an
// H200) a late request, such as a query or an arrival counter of the combine, waits 6 us. 64 KB per SM keep
// memory busy, so kLoadsInFlight bounds the outstanding stages of each consumer warp; its other stages hold
// tiles that have arrived.
//
// Early loads: keys below length - 1 were written by earlier steps. Those of the first work tile are loaded
// before pdl_wait(): kStages tiles per warp to shared memory, kL2Prefetch tiles to the L2. This is safe
// because the first kernel of a step is never launched with the pdl attribute (embedding has no such
// parameter): when a later kernel of the step starts, all kernels of earlier steps have ended.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// What a stage holds.
struct KvTile {
  int work;    // work tile in the order (sequence, KV head, split); negative: no more work
  int tile;    // KV tile of the sequence; negative: none for this warp in this round
  int length;  // keys of the sequence
  int left;    // rounds of the work tile, this one included
};

/// Pipelines of kWarps consumer warps. A round is one KV tile of kTileKv keys for each of them.
template <class P, int kTileKv, int kWarps, int kStages, int kLoadsInFlight, int kL2Prefetch, int kSplits>
class KvPipeline {
 public:
  using C = typename P::C;
  static constexpr int kTileElements = kTileKv * P::kHeadDim,
                       kRowBytes = P::kHeadDim * static_cast<int>(sizeof(C)),
                       kScales = P::kRowScales ? 2 * kTileKv : 0, kBuffers = kWarps * kStages;
  static_assert(kRowBytes % 64 == 0 && kLoadsInFlight <= kStages && kWarps <= 32);
  // Shared memory: K and V tiles, scales of their rows, their descriptions, full and empty barriers.
  static constexpr int kScalesAt = kBuffers * 2 * kTileKv * kRowBytes,
                       kTilesAt = kScalesAt + kBuffers * kScales * 4,
                       kBarriersAt = kTilesAt + kBuffers * static_cast<int>(sizeof(KvTile)),
                       kEnd = kBarriersAt + kBuffers * 16;

  const int warp;  // of the block; the producer is warp kWarps
  const int work_tiles;

  /// All threads of the block call; __syncthreads() must follow.
  __device__ __forceinline__ KvPipeline(const AttentionDecodeArgs& args, unsigned char* shared)
      : warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0)),
        work_tiles(args.batch * P::kKvHeads * kSplits),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    const int consumer = warp < kWarps ? warp : min_of(lane_, kWarps - 1);  // whose stages this lane uses
    buffers_ = reinterpret_cast<C*>(shared) + consumer * kStages * 2 * kTileElements;
    scales_ = reinterpret_cast<float*>(shared + kScalesAt) + consumer * kStages * kScales;
    tiles_ = reinterpret_cast<KvTile*>(shared + kTilesAt) + consumer * kStages;
    full_barrier_ = reinterpret_cast<Mbarrier*>(shared + kBarriersAt) + consumer * kStages;
    empty_barrier_ = full_barrier_ + kBuffers;
    if (is_producer_lane()) {
      for (int s = 0; s < kStages; ++s) {
        mbarrier_init(full_barrier_ + s);
        mbarrier_init(empty_barrier_ + s);
      }
      mbarrier_init_fence();
    }
  }
  static __device__ __forceinline__ int split(int work) { return work % kSplits; }
  static __device__ __forceinline__ int kv_head(int work) { return work / kSplits % P::kKvHeads; }
  static __device__ __forceinline__ int batch(int work) { return work / kSplits / P::kKvHeads; }

  /// The producer warp. `work_counter` is 0 before and after a launch: the grid
  /// fetches work_tiles times in all, one failed fetch per block included, and atomicInc wraps there.
  __device__ __forceinline__ void produce(const AttentionDecodeArgs& args, unsigned* work_counter) {
    const int blocks = static_cast<int>(gridDim.x);
    int work = static_cast<int>(blockIdx.x);
    pdl_launch_dependents();
    if (work >= work_tiles) pdl_wait();
    for (bool first = true; work < work_tiles; first = false) {
      const WorkTile current(args, work, min_of(lane_, kWarps - 1));
      int round = 0;
      if (first) {
        const int early = current.early_rounds();
        for (; round < min_of(kStages, early); ++round) issue_load(current, round);
        if (kL2Prefetch > 0 && is_producer_lane() && round == kStages) {
          mbarrier_wait(full_barrier_ + (kStages - 1), 0);
          for (int r = kStages; r < min_of(kStages + kL2Prefetch, early); ++r) prefetch_l2(current, r);
        }
        __syncwarp();
        pdl_wait();
      }
      unsigned fetched = 0;
      for (bool has_fetched = work_tiles <= blocks;; ++round) {
        if (!has_fetched && round + kStages >= current.rounds) {
          if (lane_ == 0) fetched = atomicInc(work_counter, work_tiles - 1);
          has_fetched = true;
        }
        if (round >= current.rounds) break;
        issue_load(current, round);
      }
      work =
          work_tiles <= blocks ? work_tiles : blocks + static_cast<int>(__shfl_sync(0xffffffffu, fetched, 0));
    }
    if (is_producer_lane()) {
      mbarrier_wait(empty_barrier_ + state_.index, state_.phase ^ 1);
      tiles_[state_.index].work = -1;
      mbarrier_arrive_expect_tx(full_barrier_ + state_.index, 0);
    }
  }

  /// Consumer warps: waits for the next tile.
  __device__ __forceinline__ KvTile consumer_wait() const {
    mbarrier_wait(full_barrier_ + state_.index, state_.phase);
    return tiles_[state_.index];
  }
  __device__ __forceinline__ C* keys() const { return buffers_ + state_.index * 2 * kTileElements; }
  __device__ __forceinline__ C* values() const { return keys() + kTileElements; }
  __device__ __forceinline__ float* k_scales() const { return scales_ + state_.index * kScales; }
  __device__ __forceinline__ float* v_scales() const { return k_scales() + kTileKv; }
  /// Consumer warps: frees the stage. __syncwarp() orders the accesses of all lanes before the arrival of
  /// lane 0.
  __device__ __forceinline__ void consumer_release() {
    fence_proxy_async();
    __syncwarp();
    if (lane_ == 0) mbarrier_arrive(empty_barrier_ + state_.index);
    state_.advance();
  }

 private:
  /// A work tile (the keys of one split of one KV head) as the lane that loads for one warp sees it.
  struct WorkTile {
    WarpTiles<P, kTileKv, kWarps, kSplits> tiles;
    KvCache<P> cache;
    int index, base, rounds;

    __device__ __forceinline__ WorkTile(const AttentionDecodeArgs& args, int work, int warp)
        : tiles(args, batch(work), split(work), warp),
          cache(args, batch(work), kv_head(work)),
          index(work),
          base(tiles.first - warp),
          rounds(max_of(1, ceil_div(tiles.end - base, kWarps))) {}
    /// Rounds whose keys were written by earlier steps.
    __device__ __forceinline__ int early_rounds() const {
      return tiles.early_end == tiles.end ? rounds : (tiles.early_end - base) / kWarps;
    }
    __device__ __forceinline__ int tile(int round) const { return tiles.first + round * kWarps; }
  };

  const int lane_;
  C* buffers_;
  float* scales_;
  KvTile* tiles_;
  Mbarrier* full_barrier_;
  Mbarrier* empty_barrier_;
  PipelineState<kStages> state_;
  int issued_ = 0;                // rounds
  PipelineState<kStages> limit_;  // this stage must be full before the next load is issued

  __device__ __forceinline__ bool is_producer_lane() const { return warp == kWarps && lane_ < kWarps; }
  /// Lane i loads for consumer warp i.
  __device__ __forceinline__ void issue_load(const WorkTile& work, int round) {
    if (is_producer_lane()) {
      mbarrier_wait(empty_barrier_ + state_.index, state_.phase ^ 1);
      if (kLoadsInFlight < kStages && issued_ >= kLoadsInFlight)
        mbarrier_wait(full_barrier_ + limit_.index, limit_.phase);
      const int tile = work.tile(round);
      const bool exists = tile < work.tiles.end;
      tiles_[state_.index] = {work.index, exists ? tile : -1, work.tiles.length, work.rounds - round};
      const int cached = exists ? work.tiles.cached(tile) : 0;
      const unsigned bytes = cached * kRowBytes, scale_bytes = P::kRowScales ? ceil_div(cached, 4) * 16 : 0;
      mbarrier_arrive_expect_tx(full_barrier_ + state_.index, 2 * (bytes + scale_bytes));
      if (cached > 0) {
        const long long row = work.cache.row(tile * kTileKv);
        bulk_copy_evict_first(keys(), work.cache.k_at(row, 0), bytes, full_barrier_ + state_.index);
        bulk_copy_evict_first(values(), work.cache.v_at(row, 0), bytes, full_barrier_ + state_.index);
        if constexpr (P::kRowScales) {
          bulk_copy_evict_first(k_scales(), work.cache.k_scales + row, scale_bytes,
                                full_barrier_ + state_.index);
          bulk_copy_evict_first(v_scales(), work.cache.v_scales + row, scale_bytes,
                                full_barrier_ + state_.index);
        }
      }
    }
    __syncwarp();
    state_.advance();
    if (kLoadsInFlight < kStages && ++issued_ > kLoadsInFlight) limit_.advance();
  }
  __device__ __forceinline__ void prefetch_l2(const WorkTile& work, int round) const {
    const int tile = work.tile(round), cached = tile < work.tiles.end ? work.tiles.cached(tile) : 0;
    if (cached == 0) return;
    const long long row = work.cache.row(tile * kTileKv);
    bulk_prefetch_l2(work.cache.k_at(row, 0), cached * kRowBytes);
    bulk_prefetch_l2(work.cache.v_at(row, 0), cached * kRowBytes);
  }
};

}  // namespace warptune
