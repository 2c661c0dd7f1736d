#pragma once
// The chunks of K and V that warps take, through rings in shared memory that a warp of its own fills by bulk
// copies (sm_90): plain runs of memory, whole lines in both places, each byte read once.
//
// Blocks stay, one per multiprocessor, and go from one share of a sequence's keys to the next: reading never
// stops where one ends. A block begins with the share of its number and draws tickets for the others: some
// multiprocessors are nearer to memory, and take more.
//
// Not all that a ring has room for is under way. The requests of all multiprocessors stand in one queue
// before memory: with whole rings in it, 26 MB on an H200, what comes last, a query or the flag of a merge,
// waits for 6 us. 64 KB of each keep memory busy; the rest of a ring holds what came before its warp could
// take it.
//
// Keys below length - 1 were written by earlier steps: those of the first share are asked for before
// pdl_wait(), a ring of them and kAhead chunks of each warp into the L2. A step's first kernel must not be
// launched with the pdl attribute (embedding has no such parameter), which makes this safe: everything of
// earlier steps has ended when any later kernel of this step can start.
#include "kernels/attention_decode/cache.cuh"
#include "kernels/attention_decode/chunk_share.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// What comes in a place of a ring.
struct FedChunk {
  int share;   // of the op's shares, in the order (sequence, KV head, split); below 0: there are no more
  int chunk;   // of the sequence; below 0: this warp has none in this round
  int length;  // keys of the sequence
  int left;    // rounds of the share, with this one
};

/// Rings of kStages chunks of kKeys keys for kWarps warps, of which kUnderWay are asked for and have not
/// come, at most. A round is a chunk for each warp.
template <class P, int kKeys, int kWarps, int kStages, int kUnderWay, int kAhead, int kSplits>
class FedRings {
 public:
  using C = typename P::C;
  static constexpr int kTile = kKeys * P::kHeadDim, kRowBytes = P::kHeadDim * static_cast<int>(sizeof(C)),
                       kScales = P::kRowScales ? 2 * kKeys : 0, kSlots = kWarps * kStages;
  static_assert(kRowBytes % 128 == 0 && kUnderWay <= kStages && kWarps <= 32);
  // Shared memory: tiles of K and V, scales of their rows, what they are, barriers.
  static constexpr int kScalesAt = kSlots * 2 * kKeys * kRowBytes,
                       kChunksAt = kScalesAt + kSlots * kScales * 4,
                       kBarriersAt = kChunksAt + kSlots * static_cast<int>(sizeof(FedChunk)),
                       kEnd = kBarriersAt + kSlots * 16;

  const int warp;  // of the block; the one that fills the rings is number kWarps
  const int shares;

  /// All threads of the block call; a barrier must follow.
  __device__ __forceinline__ FedRings(const AttentionDecodeArgs& args, unsigned char* shared)
      : warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0)),
        shares(args.batch * P::kKvHeads * kSplits),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    const int ring = warp < kWarps ? warp : min_of(lane_, kWarps - 1);  // the one that this lane is about
    tiles_ = reinterpret_cast<C*>(shared) + ring * kStages * 2 * kTile;
    scales_ = reinterpret_cast<float*>(shared + kScalesAt) + ring * kStages * kScales;
    chunks_ = reinterpret_cast<FedChunk*>(shared + kChunksAt) + ring * kStages;
    full_ = reinterpret_cast<Mbarrier*>(shared + kBarriersAt) + ring * kStages;
    empty_ = full_ + kSlots;
    if (feeds()) {
      for (int s = 0; s < kStages; ++s) {
        mbarrier_init(full_ + s);
        mbarrier_init(empty_ + s);
      }
      mbarrier_init_fence();
    }
  }
  static __device__ __forceinline__ int split(int share) { return share % kSplits; }
  static __device__ __forceinline__ int kv_head(int share) { return share / kSplits % P::kKvHeads; }
  static __device__ __forceinline__ int batch(int share) { return share / kSplits / P::kKvHeads; }

  /// All that warp kWarps does. `tickets`: 0 before and after a launch; each block draws until there is none.
  __device__ __forceinline__ void feed(const AttentionDecodeArgs& args, unsigned* tickets) {
    const int blocks = static_cast<int>(gridDim.x);
    int share = static_cast<int>(blockIdx.x);
    pdl_launch_dependents();
    if (share >= shares) pdl_wait();
    for (bool first = true; share < shares; first = false) {
      const Part part(args, share, min_of(lane_, kWarps - 1));
      int round = 0;
      if (first) {
        const int old = part.old_rounds();
        for (; round < min_of(kStages, old); ++round) ask(part, round);
        if (kAhead > 0 && feeds() && round == kStages) {
          mbarrier_wait(full_ + (kStages - 1), 0);
          for (int r = kStages; r < min_of(kStages + kAhead, old); ++r) ask_ahead(part, r);
        }
        __syncwarp();
        pdl_wait();
      }
      unsigned ticket = 0;
      for (bool drawn = shares <= blocks;; ++round) {
        if (!drawn && round + kStages >= part.rounds) {
          if (lane_ == 0) ticket = atomicInc(tickets, shares - 1);
          drawn = true;
        }
        if (round >= part.rounds) break;
        ask(part, round);
      }
      share = shares <= blocks ? shares : blocks + static_cast<int>(__shfl_sync(0xffffffffu, ticket, 0));
    }
    if (feeds()) {
      mbarrier_wait(empty_ + stage_, parity_ ^ 1);
      chunks_[stage_].share = -1;
      mbarrier_arrive_expect_tx(full_ + stage_, 0);
    }
  }

  /// The chunk that comes next, when it has come. The other warps.
  __device__ __forceinline__ FedChunk wait() const {
    mbarrier_wait(full_ + stage_, parity_);
    return chunks_[stage_];
  }
  __device__ __forceinline__ C* keys() const { return tiles_ + stage_ * 2 * kTile; }
  __device__ __forceinline__ C* values() const { return keys() + kTile; }
  __device__ __forceinline__ float* k_scales() const { return scales_ + stage_ * kScales; }
  __device__ __forceinline__ float* v_scales() const { return k_scales() + kKeys; }
  /// Gives its place to another.
  __device__ __forceinline__ void next() {
    __syncwarp();
    if (lane_ == 0) mbarrier_arrive(empty_ + stage_);
    advance();
  }

 private:
  /// A share of keys, as the lane that asks for one warp's chunks sees it.
  struct Part {
    ChunkShare<P, kKeys, kWarps, kSplits> chunks;
    KvCache<P> cache;
    int number, base, rounds;

    __device__ __forceinline__ Part(const AttentionDecodeArgs& args, int share, int warp)
        : chunks(args, batch(share), split(share), warp),
          cache(args, batch(share), kv_head(share)),
          number(share),
          base(chunks.first - warp),
          rounds(max_of(1, ceil_div(chunks.end - base, kWarps))) {}
    /// Rounds that are of earlier steps.
    __device__ __forceinline__ int old_rounds() const {
      return chunks.old_end == chunks.end ? rounds : (chunks.old_end - base) / kWarps;
    }
    __device__ __forceinline__ int chunk(int round) const { return chunks.first + round * kWarps; }
  };

  const int lane_;
  C* tiles_;
  float* scales_;
  FedChunk* chunks_;
  Mbarrier* full_;
  Mbarrier* empty_;
  int stage_ = 0;
  unsigned parity_ = 0;
  int asked_ = 0, behind_ = 0;  // rounds; the stage that must have come before another is asked for
  unsigned behind_parity_ = 0;

  __device__ __forceinline__ bool feeds() const { return warp == kWarps && lane_ < kWarps; }
  __device__ __forceinline__ void advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }
  /// Each lane for its warp.
  __device__ __forceinline__ void ask(const Part& part, int round) {
    if (feeds()) {
      mbarrier_wait(empty_ + stage_, parity_ ^ 1);
      if (kUnderWay < kStages && asked_ >= kUnderWay) mbarrier_wait(full_ + behind_, behind_parity_);
      const int chunk = part.chunk(round);
      const bool exists = chunk < part.chunks.end;
      chunks_[stage_] = {part.number, exists ? chunk : -1, part.chunks.length, part.rounds - round};
      const int cached = exists ? part.chunks.cached(chunk) : 0;
      const unsigned bytes = cached * kRowBytes, scale_bytes = P::kRowScales ? ceil_div(cached, 4) * 16 : 0;
      mbarrier_arrive_expect_tx(full_ + stage_, 2 * (bytes + scale_bytes));
      if (cached > 0) {
        const long long row = part.cache.row(chunk * kKeys);
        bulk_copy_evict_first(keys(), part.cache.k_at(row, 0), bytes, full_ + stage_);
        bulk_copy_evict_first(values(), part.cache.v_at(row, 0), bytes, full_ + stage_);
        if constexpr (P::kRowScales) {
          bulk_copy_evict_first(k_scales(), part.cache.k_scales + row, scale_bytes, full_ + stage_);
          bulk_copy_evict_first(v_scales(), part.cache.v_scales + row, scale_bytes, full_ + stage_);
        }
      }
    }
    __syncwarp();
    advance();
    if (kUnderWay < kStages && ++asked_ > kUnderWay && ++behind_ == kStages) {
      behind_ = 0;
      behind_parity_ ^= 1;
    }
  }
  __device__ __forceinline__ void ask_ahead(const Part& part, int round) const {
    const int chunk = part.chunk(round), cached = chunk < part.chunks.end ? part.chunks.cached(chunk) : 0;
    if (cached == 0) return;
    const long long row = part.cache.row(chunk * kKeys);
    bulk_prefetch_l2(part.cache.k_at(row, 0), cached * kRowBytes);
    bulk_prefetch_l2(part.cache.v_at(row, 0), cached * kRowBytes);
  }
};

}  // namespace warptune
