// Idea: warp-specialised flash attention for Hopper (Shah et al., "FlashAttention-3", 2024). One warpgroup
// fetches: a thread asks the tensor memory accelerator for K and V tiles, kStages deep, its other warps copy
// the queries. kConsumers warpgroups compute, 64 queries each: Q.K^T from shared memory, P.V with P in
// registers. Q.K^T of the next tile is issued before P.V of this one, so that its softmax runs under P.V; and
// consumers take turns in issuing (kTurns), so that one's softmax runs under the other's products. Tiles of
// keys are walked from the last visible one down: those that need a mask come first, the rest runs without.
// Blocks are persistent: they take the work in rounds, back and forth, so that the longest meet the shortest.
#include "attention_prefill/sequence.cuh"
#include "common/async_copy.cuh"
#include "common/exp2.cuh"
#include "common/pdl.cuh"
#include "common/tensor_copy.cuh"
#include "common/vec.cuh"
#include "common/wgmma.cuh"

namespace warptune {

/// A kTileM x kHeadDim piece of the output: whose queries, and which keys they walk over.
template <bool kCausal, int kTileN>
struct Work {
  int head, batch, first_row, rows, tiles, masked;
  Sequence sequence;
};

/// Item `index` of kTilesM tiles of queries for each of batch * kQHeads heads: kTogether heads at a time,
/// which share the L2; among them the longest tiles first.
template <int kQHeads, bool kCausal, int kTilesM, int kTileM, int kTileN, int kTogether>
__device__ __forceinline__ Work<kCausal, kTileN> find_work(const AttentionPrefillArgs& args, int index) {
  const int heads = args.batch * kQHeads;
  const int section = index / (kTogether * kTilesM), in_section = index - section * (kTogether * kTilesM);
  const int together = min(kTogether, heads - section * kTogether);
  const int nth = in_section / together;
  const int head = section * kTogether + in_section - nth * together;
  Work<kCausal, kTileN> work;
  work.batch = head / kQHeads;
  work.head = head % kQHeads;
  work.first_row = (kCausal ? kTilesM - 1 - nth : nth) * kTileM;
  work.sequence = load_sequence(args, work.batch);
  work.rows = min(kTileM, work.sequence.q_len - work.first_row);
  if (work.rows <= 0) return work;
  const int most = max(0, visible_keys<kCausal>(work.sequence, work.first_row + work.rows - 1));
  const int least = max(0, visible_keys<kCausal>(work.sequence, work.first_row));
  work.tiles = ceil_div(most, kTileN);
  work.masked = work.tiles - least / kTileN;
  return work;
}

/// Which slot of a ring comes next, and how often it was used before, modulo 2.
template <int kStages>
struct RingPosition {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

/// Four lanes hold 4 bytes each of 4 pieces of 16 bytes: afterwards each holds one piece, lane i the ith.
__device__ __forceinline__ void transpose_quad(unsigned (&x)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
    (odd ? x[i] : x[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, high ? x[i] : x[i + 2], 2);
    (high ? x[i] : x[i + 2]) = got;
  }
}

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kCausal, int kTilesM, int kConsumers,
          int kTileN, int kStages, bool kTurns, int kTogether>
struct FlashWgmma {
  static constexpr int kTileM = 64 * kConsumers, kThreads = 128 * (kConsumers + 1);
  static constexpr int kParts = ceil_div(kHeadDim, 64);  // of 64 elements, each a swizzled matrix
  static constexpr int kTileBytes = kParts * kTileN * 128, kPartM = kTileM * 128, kPartN = kTileN * 128;
  static constexpr int kGroup = kQHeads / kKvHeads;
  static constexpr long long kQStride = static_cast<long long>(kQHeads) * kHeadDim;
  static constexpr int kFetchers = 96;  // threads that copy queries
  static_assert(kHeadDim % 16 == 0 && kTileN % 16 == 0);
  using Ring = RingPosition<kStages>;
  using Item = Work<kCausal, kTileN>;

  struct Barriers {
    BulkBarrier q_full, q_empty, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  };
  struct Shared {  // aligned to 1024
    unsigned char q[kParts * kPartM], k[kStages][kTileBytes], v[kStages][kTileBytes];
    Barriers barriers;
  };

  /// Calls f(work) for each item of this block that is not empty.
  template <class F>
  static __device__ __forceinline__ void for_all_work(const AttentionPrefillArgs& args, F f) {
    const int items = args.batch * kQHeads * kTilesM, blocks = gridDim.x;
    for (int round = 0; round * blocks < items; ++round) {
      const int nth = round % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x;
      if (round * blocks + nth >= items) continue;
      const Item work =
          find_work<kQHeads, kCausal, kTilesM, kTileM, kTileN, kTogether>(args, round * blocks + nth);
      if (work.rows > 0) f(work);
    }
  }

  /// One thread: K of the first tile, then K of the next and V of the last in turn, as they are read.
  static __device__ __forceinline__ void fetch_keys(const AttentionPrefillArgs& args, const TensorMap& k_map,
                                                    const TensorMap& v_map, Shared& shared) {
    Ring k_ring, v_ring;
    Barriers& b = shared.barriers;
    const auto fetch = [&](const TensorMap& map, unsigned char* to, int key, int head, BulkBarrier* full) {
      bulk_expect(full, kTileBytes);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        tensor_copy(to + part * kPartN, map, part * 64, key, head, full);
    };
    for_all_work(args, [&](const Item& work) {
      const int head = work.batch * kKvHeads + work.head / kGroup;
      for (int tile = 0; tile <= work.tiles; ++tile) {
        const int key = (work.tiles - 1 - tile) * kTileN;
        if (tile < work.tiles) {
          bulk_wait(&b.k_empty[k_ring.stage], k_ring.parity ^ 1);
          fetch(k_map, shared.k[k_ring.stage], key, head, &b.k_full[k_ring.stage]);
          k_ring.advance();
        }
        if (tile > 0) {
          bulk_wait(&b.v_empty[v_ring.stage], v_ring.parity ^ 1);
          fetch(v_map, shared.v[v_ring.stage], key + kTileN, head, &b.v_full[v_ring.stage]);
          v_ring.advance();
        }
      }
    });
  }

  /// kFetchers threads: the queries of each item; rows past its last are zeros.
  static __device__ __forceinline__ void fetch_queries(const AttentionPrefillArgs& args, Shared& shared,
                                                       int thread) {
    constexpr int kChunks = kHeadDim / 8;
    unsigned parity = 0;
    for_all_work(args, [&](const Item& work) {
      if (work.tiles == 0) return;
      const T* q = static_cast<const T*>(args.q) + (work.sequence.first + work.first_row) * kQStride +
                   work.head * kHeadDim;
      bulk_wait(&shared.barriers.q_empty, parity ^ 1);
#pragma unroll 4
      for (int i = thread; i < kTileM * kChunks; i += kFetchers) {
        const int row = i / kChunks, chunk = i % kChunks;
        copy_async16(shared.q + chunk / 8 * kPartM + row * 128 + (chunk % 8 ^ row % 8) * 16,
                     q + row * kQStride + chunk * 8, row < work.rows);
      }
      copy_async_commit();
      copy_async_wait<0>();
      wgmma_publish();
      __syncwarp();
      if (thread % 32 == 0) barrier_arrive(&shared.barriers.q_full);
      parity ^= 1;
    });
  }

  /// A warpgroup that computes: queries 64 * nth and on of each item. A thread holds parts of two rows, lane
  /// / 4 and lane / 4 + 8 of its warp's 16.
  struct Consumer {
    const AttentionPrefillArgs& args;
    Shared& shared;
    const int nth, lane, row, my_turn, next_turn;
    const unsigned q, k, v;
    const float scale;
    Ring k_ring, v_ring;
    unsigned q_parity = 0;
    float s[kTileN / 2], o[kHeadDim / 2];
    unsigned p[kTileN / 16][4];
    float row_max[2], row_sum[2];
    float shrink[2];  // what o is yet to be multiplied with
    int seen[2];      // keys that a row sees, counted from this thread's first key of the tile

    __device__ __forceinline__ Consumer(const AttentionPrefillArgs& args, Shared& shared, int nth)
        : args(args),
          shared(shared),
          nth(nth),
          lane(threadIdx.x % 32),
          row(nth * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4),
          my_turn(1 + nth),
          next_turn(1 + (nth + 1) % kConsumers),
          q(shared_address(shared.q) + nth * 64 * 128),
          k(shared_address(shared.k)),
          v(shared_address(shared.v)),
          scale(args.scale * kLog2e) {}

    __device__ __forceinline__ void release(BulkBarrier* barrier) const {
      __syncwarp();
      if (lane == 0) barrier_arrive(barrier);
    }
    __device__ __forceinline__ void wait_for_keys() const {
      bulk_wait(&shared.barriers.k_full[k_ring.stage], k_ring.parity);
    }
    __device__ __forceinline__ void wait_for_values() const {
      bulk_wait(&shared.barriers.v_full[v_ring.stage], v_ring.parity);
    }
    __device__ __forceinline__ void release_keys() {
      release(&shared.barriers.k_empty[k_ring.stage]);
      k_ring.advance();
    }
    __device__ __forceinline__ void release_values() {
      release(&shared.barriers.v_empty[v_ring.stage]);
      v_ring.advance();
    }

    /// s = q . k^T, not waited for.
    __device__ __forceinline__ void issue_scores() {
      const unsigned long long a = wgmma_swizzled(q), b = wgmma_swizzled(k + k_ring.stage * kTileBytes);
      wgmma_hold(s);
      wgmma_begin();
#pragma unroll
      for (int kk = 0; kk < kHeadDim / 16; ++kk)
        wgmma<T, kTileN>(s, wgmma_advance(a, kk / 4 * kPartM + kk % 4 * 32),
                         wgmma_advance(b, kk / 4 * kPartN + kk % 4 * 32), kk > 0);
      wgmma_commit();
    }
    /// o += p . v, not waited for.
    __device__ __forceinline__ void issue_output() {
      const unsigned long long b = wgmma_swizzled(v + v_ring.stage * kTileBytes, kPartN);
      wgmma_hold(o);
      wgmma_hold(p);
      wgmma_begin();
#pragma unroll
      for (int kk = 0; kk < kTileN / 16; ++kk)
        wgmma<T, kHeadDim>(o, p[kk], wgmma_advance(b, kk * 2048), true);
      wgmma_commit();
    }

    /// Scores become probabilities; maxima and sums go on.
    template <bool kMask>
    __device__ __forceinline__ void soften() {
      wgmma_hold(s);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if constexpr (kMask) {
#pragma unroll
          for (int i = 0; i < kTileN / 4; ++i)
            if (i / 2 * 8 + i % 2 >= seen[r]) s[i / 2 * 4 + r * 2 + i % 2] = -WARPTUNE_INFINITY;
        }
        float most[2] = {row_max[r], row_max[r]};
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) most[i % 2] = fmaxf(most[i % 2], s[i / 2 * 4 + r * 2 + i % 2]);
        most[0] = fmaxf(most[0], most[1]);
        most[0] = fmaxf(most[0], __shfl_xor_sync(0xffffffffu, most[0], 1));
        most[0] = fmaxf(most[0], __shfl_xor_sync(0xffffffffu, most[0], 2));
        // a row that saw no key yet has no maximum
        const float offset = kMask && most[0] == -WARPTUNE_INFINITY ? 0.0f : most[0] * scale;
        shrink[r] = exp2_fast(fmaf(row_max[r], scale, -offset));
        row_max[r] = most[0];
        float sum[2] = {row_sum[r] * shrink[r], 0};
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) {
          float& score = s[i / 2 * 4 + r * 2 + i % 2];
          score = exp2_fast(fmaf(score, scale, -offset));
          sum[i % 2] += score;
        }
        row_sum[r] = sum[0] + sum[1];
      }
      wgmma_hold(s);
    }
    __device__ __forceinline__ void pack_probabilities() {
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i) p[i / 4][i % 4] = pack2<T>(s[2 * i], s[2 * i + 1]);
    }
    __device__ __forceinline__ void rescale() {
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) o[i] *= shrink[i / 2 % 2];
    }

    /// Values past the last key may be anything, and 0 * NaN is NaN: zeros in the first tile of the walk.
    __device__ __forceinline__ void clear_values_past(int valid) {
      if (valid >= kTileN) return;
      wait_for_values();
      const int pieces = (kTileN - valid) * 8;
      for (int i = threadIdx.x % 128; i < kParts * pieces; i += 128) {
        const int part = i / pieces, piece = i - part * pieces;
        *reinterpret_cast<uint4*>(shared.v[v_ring.stage] + part * kPartN + valid * 128 + piece * 16) =
            make_uint4(0, 0, 0, 0);
      }
      wgmma_publish();
      named_barrier_sync(1 + kConsumers + nth, 128);
    }

    /// The scores of a tile and the output of the one before it. The keys are there; `more`: another follows.
    template <bool kMask>
    __device__ __forceinline__ void step(bool more) {
      if constexpr (kMask) seen[0] += kTileN, seen[1] += kTileN;
      if constexpr (kTurns) named_barrier_sync(my_turn, 256);
      issue_scores();
      wait_for_values();
      issue_output();
      if constexpr (kTurns) named_barrier_arrive(next_turn, 256);
      wgmma_wait<1>();
      release_keys();
      soften<kMask>();
      if (more)
        wait_for_keys();  // here, since no branch: the compiler would move the softmax past wgmma_wait()
      wgmma_wait<0>();
      wgmma_hold(o);
      wgmma_hold(p);
      release_values();
      rescale();
      pack_probabilities();
    }

    __device__ __forceinline__ void attend(const Item& work) {
      bulk_wait(&shared.barriers.q_full, q_parity);
      wait_for_keys();
      issue_scores();
      wgmma_wait<0>();
      release_keys();
      soften<true>();
      pack_probabilities();
      clear_values_past(work.sequence.kv_len - (work.tiles - 1) * kTileN);

      if (work.tiles > 1) wait_for_keys();
      int tile = 1;
      for (; tile < work.masked; ++tile) step<true>(tile + 1 < work.tiles);
      for (; tile < work.tiles; ++tile) step<false>(tile + 1 < work.tiles);
      release(&shared.barriers.q_empty);
      q_parity ^= 1;

      wait_for_values();
      issue_output();
      wgmma_wait<0>();
      wgmma_hold(o);
      release_values();
    }

    __device__ __forceinline__ void store(const Item& work) const {
      T* const out = static_cast<T*>(args.out) + (work.sequence.first + work.first_row) * kQStride +
                     work.head * kHeadDim;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = row_sum[r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
        for (int first = 0; first < kHeadDim / 8; first += 4) {
          unsigned piece[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            piece[i] = first + i < kHeadDim / 8 ? pack2<T>(o[(first + i) * 4 + r * 2] * inverse,
                                                           o[(first + i) * 4 + r * 2 + 1] * inverse)
                                                : 0;
          transpose_quad(piece);
          const int chunk = first + lane % 4;
          if (row + 8 * r < work.rows && chunk < kHeadDim / 8)
            *reinterpret_cast<uint4*>(out + (row + 8 * r) * kQStride + chunk * 8) =
                make_uint4(piece[0], piece[1], piece[2], piece[3]);
        }
      }
    }

    __device__ __forceinline__ void run() {
      if (kTurns && nth == kConsumers - 1) named_barrier_arrive(next_turn, 256);
      for_all_work(args, [&](const Item& work) {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) o[i] = 0;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          row_max[r] = -WARPTUNE_INFINITY, row_sum[r] = 0;
          seen[r] = visible_keys<kCausal>(work.sequence, work.first_row + row + 8 * r) -
                    (work.tiles - 1) * kTileN - lane % 4 * 2;
        }
        if (work.tiles > 0) attend(work);
        store(work);
      });
      if (kTurns && nth == 0) named_barrier_sync(my_turn, 256);  // the last arrival
    }
  };

  static __device__ __forceinline__ void run(const AttentionPrefillArgs& args, const TensorMap& k_map,
                                             const TensorMap& v_map, unsigned char* memory) {
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      Barriers& b = shared.barriers;
      barrier_init(&b.q_full, kFetchers / 32);
      barrier_init(&b.q_empty, 4 * kConsumers);
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&b.k_full[i], 1), barrier_init(&b.v_full[i], 1);
        barrier_init(&b.k_empty[i], 4 * kConsumers), barrier_init(&b.v_empty[i], 4 * kConsumers);
      }
      bulk_barriers_ready();
      tensor_map_prefetch(k_map);
      tensor_map_prefetch(v_map);
    }
    __syncthreads();
    pdl_wait();
    if (group == 0) {
      if constexpr (kConsumers > 1) give_registers_back<kConsumers == 2 ? 24 : 32>();
      const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
      if (warp > 0)
        fetch_queries(args, shared, threadIdx.x - 32);
      else if (threadIdx.x == 0)
        fetch_keys(args, k_map, v_map, shared);
    } else {
      if constexpr (kConsumers > 1) take_registers<kConsumers == 2 ? 240 : 160>();
      Consumer(args, shared, group - 1).run();
    }
  }
};

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kCausal, int kTilesM, int kConsumers,
          int kTileN, int kStages, bool kTurns, int kTogether>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    attention_prefill_flash_wgmma(AttentionPrefillArgs args, const __grid_constant__ TensorMap k_map,
                                  const __grid_constant__ TensorMap v_map) {
  extern __shared__ __align__(1024) unsigned char memory[];
  FlashWgmma<T, kQHeads, kKvHeads, kHeadDim, kCausal, kTilesM, kConsumers, kTileN, kStages, kTurns,
             kTogether>::run(args, k_map, v_map, memory);
}

}  // namespace warptune
