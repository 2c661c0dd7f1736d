#pragma once
// The chunks of K and V that a warp takes, through a ring in shared memory that bulk copies keep full: plain
// runs of memory, rows end to end, each byte read once.
//
// Keys below length - 1 were written by earlier steps: their copies are asked for before pdl_wait(). A step's
// first kernel must not be launched with the pdl attribute (embedding has no such parameter), which makes
// this safe: everything of earlier steps has ended when any later kernel of this step can start. The kAhead
// chunks of a warp behind those of its ring are asked into the L2, so that memory has work until the kernel
// before has merged its splits and this one may go on. The first blocks do that when their first chunk has
// come: asked for at once, those would stand before what that merge waits for.
#include "kernels/attention_decode/cache.cuh"
#include "kernels/attention_decode/chunk_share.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// One warp's ring of kStages chunks of kKeys keys, from caches without scales. Shared memory, for all warps:
/// tiles of K and V; barriers.
template <class P, int kKeys, int kWarps, int kStages, int kAhead, int kSplits>
struct KeyRing {
  using C = typename P::C;
  using Share = ChunkShare<P, kKeys, kWarps, kSplits>;
  static constexpr int kTile = kKeys * P::kHeadDim, kRowBytes = P::kHeadDim * static_cast<int>(sizeof(C)),
                       kSlots = kWarps * kStages, kBarriersAt = kSlots * 2 * kKeys * kRowBytes,
                       kEnd = ceil_div(kBarriersAt + kSlots * 8, 16) * 16;

  Share share;
  KvCache<P> cache;

  __device__ __forceinline__ KeyRing(const AttentionDecodeArgs& args, int batch, int kv_head, int split,
                                     unsigned char* shared)
      : share(args, batch, split, warp()),
        cache(args, batch, kv_head),
        tiles_(reinterpret_cast<C*>(shared) + warp() * kStages * 2 * kTile),
        full_(reinterpret_cast<Mbarrier*>(shared + kBarriersAt) + warp() * kStages) {}

  /// Asks for the first chunks, those of earlier steps; after pdl_wait() for the others. All lanes call.
  __device__ __forceinline__ void ask_old() {
    if (lane() != 0) return;
    for (int s = 0; s < kStages; ++s) mbarrier_init(full_ + s);
    mbarrier_init_fence();
    for (int s = 0; s < kStages; ++s)
      if (share.first + s * kWarps < share.old_end) ask(share.first + s * kWarps, s);
    if (kAhead > 0 && in_first_wave() && share.first < share.old_end) mbarrier_wait(full_, 0);
    for (int s = kStages; s < kStages + kAhead; ++s)
      if (share.first + s * kWarps < share.old_end) ask_ahead(share.first + s * kWarps);
  }
  __device__ __forceinline__ void ask_new() const {
    if (lane() == 0)
      for (int s = 0; s < kStages; ++s)
        if (share.first + s * kWarps >= share.old_end && share.first + s * kWarps < share.end)
          ask(share.first + s * kWarps, s);
    __syncwarp();
  }
  /// Whether these are all of them.
  __device__ __forceinline__ bool holds_all() const { return share.first + kSlots >= share.end; }

  /// When the next kernel may come: true once, before the first chunk or behind one. Where all blocks start
  /// at once and stream for long, the first end a sixth before the last, and blocks that follow them at once
  /// would ask for their keys before the others have theirs: they are let in when at most a ring of chunks is
  /// left to ask for.
  __device__ __forceinline__ bool lets_in_at_once() { return has_let_in_ = !is_single_wave() || holds_all(); }
  __device__ __forceinline__ bool lets_in_behind(int chunk) {
    if (has_let_in_ || chunk + 2 * kSlots < share.end) return false;
    return has_let_in_ = true;
  }

  /// Waits for the chunk that comes next.
  __device__ __forceinline__ void wait() const { mbarrier_wait(full_ + slot_, parity_); }
  __device__ __forceinline__ C* keys() const { return tiles_ + slot_ * 2 * kTile; }
  __device__ __forceinline__ C* values() const { return keys() + kTile; }

  /// Gives the place of `chunk` to another; true if that is the last.
  __device__ __forceinline__ bool next(int chunk) {
    __syncwarp();
    const int asked = chunk + kSlots;
    if (lane() == 0 && asked < share.end) ask(asked, slot_);
    if (++slot_ == kStages) {
      slot_ = 0;
      parity_ ^= 1;
    }
    return asked < share.end && asked + kWarps >= share.end;
  }

 private:
  C* tiles_;
  Mbarrier* full_;
  int slot_ = 0;
  unsigned parity_ = 0;
  bool has_let_in_ = false;

  /// Through a shuffle: the compiler sees that it is one for all lanes, and does not work it out again and
  /// again.
  static __device__ __forceinline__ int warp() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ __forceinline__ void ask(int chunk, int slot) const {
    const int cached = share.cached(chunk);
    const unsigned bytes = cached * kRowBytes;
    mbarrier_arrive_expect_tx(full_ + slot, 2 * bytes);
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(chunk * kKeys);
    C* const to = tiles_ + slot * 2 * kTile;
    bulk_copy_evict_first(to, cache.k_at(row, 0), bytes, full_ + slot);
    bulk_copy_evict_first(to + kTile, cache.v_at(row, 0), bytes, full_ + slot);
  }
  __device__ __forceinline__ void ask_ahead(int chunk) const {
    const int cached = share.cached(chunk);
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(chunk * kKeys);
    bulk_prefetch_l2(cache.k_at(row, 0), cached * kRowBytes);
    bulk_prefetch_l2(cache.v_at(row, 0), cached * kRowBytes);
  }
};

}  // namespace warptune
