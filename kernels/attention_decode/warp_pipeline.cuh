#pragma once
// Multistage pipeline of KV tiles, one per warp (sm_90): lane 0 loads the tiles of its own warp with
// cp.async.bulk, so that warps never wait for each other. Rows of a tile are contiguous in global and shared
// memory, and each byte is read once.
//
// Early loads: keys below length - 1 were written by earlier steps and are loaded before pdl_wait(). This is
// safe because the first kernel of a step is never launched with the pdl attribute (embedding has no such
// parameter): when a later kernel of the step starts, all kernels of earlier steps have ended.
//
// L2 prefetch: the kL2Prefetch tiles after the ones in the pipeline are prefetched, so that memory stays busy
// until the previous kernel has combined its splits. Blocks of the first wave prefetch after their first tile
// has arrived; earlier prefetches would delay the loads of that combine.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// The pipeline of one warp: kStages tiles of kTileKv keys, from caches without scales. Shared memory of the
/// block: K and V tiles of all warps, then full barriers.
template <class P, int kTileKv, int kWarps, int kStages, int kL2Prefetch, int kSplits>
struct WarpPipeline {
  using C = typename P::C;
  using Tiles = WarpTiles<P, kTileKv, kWarps, kSplits>;
  static constexpr int kTileElements = kTileKv * P::kHeadDim,
                       kRowBytes = P::kHeadDim * static_cast<int>(sizeof(C)), kBuffers = kWarps * kStages,
                       kBarriersAt = kBuffers * 2 * kTileKv * kRowBytes,
                       kEnd = ceil_div(kBarriersAt + kBuffers * 8, 16) * 16;

  Tiles tiles;
  KvCache<P> cache;

  __device__ __forceinline__ WarpPipeline(const AttentionDecodeArgs& args, int batch, int kv_head, int split,
                                          unsigned char* shared)
      : tiles(args, batch, split, warp()),
        cache(args, batch, kv_head),
        buffers_(reinterpret_cast<C*>(shared) + warp() * kStages * 2 * kTileElements),
        full_barrier_(reinterpret_cast<Mbarrier*>(shared + kBarriersAt) + warp() * kStages) {}

  /// Issues the first loads: before pdl_wait() those of early tiles, after it the others. All lanes call.
  __device__ __forceinline__ void issue_early_loads() {
    if (lane() != 0) return;
    for (int s = 0; s < kStages; ++s) mbarrier_init(full_barrier_ + s);
    mbarrier_init_fence();
    for (int s = 0; s < kStages; ++s)
      if (tiles.first + s * kWarps < tiles.early_end) issue_load(tiles.first + s * kWarps, s);
    if (kL2Prefetch > 0 && in_first_wave() && tiles.first < tiles.early_end) mbarrier_wait(full_barrier_, 0);
    for (int s = kStages; s < kStages + kL2Prefetch; ++s)
      if (tiles.first + s * kWarps < tiles.early_end) prefetch_l2(tiles.first + s * kWarps);
  }
  __device__ __forceinline__ void issue_late_loads() const {
    if (lane() == 0)
      for (int s = 0; s < kStages; ++s)
        if (tiles.first + s * kWarps >= tiles.early_end && tiles.first + s * kWarps < tiles.end)
          issue_load(tiles.first + s * kWarps, s);
    __syncwarp();
  }
  /// Whether the first loads are all loads of this warp.
  __device__ __forceinline__ bool holds_all_tiles() const { return tiles.first + kBuffers >= tiles.end; }

  // When the next kernel may launch: one of the two returns true once. In a single long wave the first blocks
  // end a sixth of the time before the last, and early blocks of the next kernel would issue their loads
  // before the remaining blocks have theirs: they launch when at most one round of stages is left to load.
  __device__ __forceinline__ bool launches_next_at_start() {
    return has_launched_ = !is_single_wave() || holds_all_tiles();
  }
  __device__ __forceinline__ bool launches_next_after(int tile) {
    if (has_launched_ || tile + 2 * kBuffers < tiles.end) return false;
    return has_launched_ = true;
  }

  /// Waits for the next tile.
  __device__ __forceinline__ void wait() const { mbarrier_wait(full_barrier_ + state_.index, state_.phase); }
  __device__ __forceinline__ C* keys() const { return buffers_ + state_.index * 2 * kTileElements; }
  __device__ __forceinline__ C* values() const { return keys() + kTileElements; }

  /// Frees the stage of `tile` and loads the next tile into it. Returns whether that is the warp's last load.
  __device__ __forceinline__ bool release(int tile) {
    fence_proxy_async();
    __syncwarp();
    const int next = tile + kBuffers;
    if (lane() == 0 && next < tiles.end) issue_load(next, state_.index);
    state_.advance();
    return next < tiles.end && next + kWarps >= tiles.end;
  }

 private:
  C* buffers_;
  Mbarrier* full_barrier_;
  PipelineState<kStages> state_;
  bool has_launched_ = false;

  /// The shuffle tells the compiler that the value is uniform in the warp.
  static __device__ __forceinline__ int warp() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ __forceinline__ void issue_load(int tile, int stage) const {
    const int cached = tiles.cached(tile);
    const unsigned bytes = cached * kRowBytes;
    mbarrier_arrive_expect_tx(full_barrier_ + stage, 2 * bytes);
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(tile * kTileKv);
    C* const to = buffers_ + stage * 2 * kTileElements;
    bulk_copy_evict_first(to, cache.k_at(row, 0), bytes, full_barrier_ + stage);
    bulk_copy_evict_first(to + kTileElements, cache.v_at(row, 0), bytes, full_barrier_ + stage);
  }
  __device__ __forceinline__ void prefetch_l2(int tile) const {
    const int cached = tiles.cached(tile);
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(tile * kTileKv);
    bulk_prefetch_l2(cache.k_at(row, 0), cached * kRowBytes);
    bulk_prefetch_l2(cache.v_at(row, 0), cached * kRowBytes);
  }
};

}  // namespace warptune
