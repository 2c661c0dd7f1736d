// Idea: warp-specialised flash attention for Hopper (Shah et al., "FlashAttention-3", 2024). One thread
// fetches: it asks the tensor memory accelerator for queries, kQueries tiles ahead, and for K and V tiles,
// kStages deep. kConsumers warpgroups compute, 64 queries each: Q.K^T from shared memory, P.V with P in
// registers. Q.K^T of the next tile is issued before P.V of this one, so that its softmax runs under P.V,
// from one item of work to the next too: its output is stored while the first scores of the next are there.
// And consumers take turns in issuing (kTurns), so that one's softmax runs under the other's products. Tiles
// of keys are walked from the last visible one down: those that need a mask come first, the rest runs
// without. Blocks are persistent and draw their work, the longest first, from a counter.
//
// Scores lie in registers as those of m16n8 products do, so that bias and dropout are flash_mma's; an
// additive bias is on its way under the products. Packed and paged keys are other boxes (key_boxes.cuh).
//
// kLazy: maxima stay until they would grow by more than 2^8, so that the output is seldom rescaled; kPoly:
// every so many powers of two are polynomials (both after "FlashAttention-4", 2025).
#include "attention_prefill/key_boxes.cuh"
#include "attention_prefill/score_tile.cuh"
#include "attention_prefill/sequence.cuh"
#include "common/exp2.cuh"
#include "common/pdl.cuh"
#include "common/tensor_copy.cuh"
#include "common/vec.cuh"
#include "common/wgmma.cuh"

namespace warptune {

/// A tile of queries of a head, and the tiles of keys they walk over, `first_tile` and on.
struct Work {
  int head, batch, first_row, rows, first_tile, tiles, masked;
  Sequence sequence;
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

/// Which slot of a ring comes next, and how often it was used before, modulo 2.
template <int kSlots>
struct RingPosition {
  int slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
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

template <class T, class S, int kConsumers, int kTileN, int kStages, int kQueries, bool kTurns, int kTogether,
          bool kLazy, int kPoly>
struct FlashWgmma {
  static constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV, kTileM = 64 * kConsumers;
  // Of 64 elements, each a swizzled matrix.
  static constexpr int kParts = ceil_div(kHeadDim, 64), kPartsV = ceil_div(kHeadDimV, 64);
  static constexpr int kPartM = kTileM * 128, kPartN = kTileN * 128;
  static constexpr bool kManyRegisters = kHeadDimV / 2 + kTileN * 3 / 4 > 190;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0 && kTileN % 16 == 0);
  using QRing = RingPosition<kQueries>;
  using Ring = RingPosition<kStages>;
  using Boxes = KeyBoxes<S, kTileN>;

  struct Barriers {
    BulkBarrier q_full[kQueries], q_empty[kQueries];
    BulkBarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  };
  struct Shared {  // aligned to 1024
    unsigned char q[kQueries][kParts * kPartM], k[kStages][kParts * kPartN], v[kStages][kPartsV * kPartN];
    Barriers barriers;
    int items[kQueries];  // whose queries these are; -1: none, the work is done
  };

  static __device__ __forceinline__ Work work_of(const AttentionPrefillArgs& args, int item) {
    return find_work<S, kTileM, kTileN, kTogether>(args, item);
  }

  /// One thread: the items of this block, the queries of each, K of its first tile, and then K of the next
  /// and V of the last in turn, as they are read.
  struct Producer {
    const AttentionPrefillArgs& args;
    const TensorMap &q_map, &k_map, &v_map;
    Shared& shared;
    QRing q_ring;
    Ring k_ring, v_ring;

    __device__ __forceinline__ void fetch_queries(const Work& work) {
      BulkBarrier* const full = &shared.barriers.q_full[q_ring.slot];
      bulk_expect(full, kParts * kPartM);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        tensor_copy(shared.q[q_ring.slot] + part * kPartM, q_map, part * 64, work.head,
                    work.sequence.first + work.first_row, full);
    }
    __device__ __forceinline__ void fetch_keys(int tile, const Boxes& boxes) {
      Barriers& b = shared.barriers;
      bulk_wait(&b.k_empty[k_ring.slot], k_ring.parity ^ 1);
      boxes.template fetch<kParts>(k_map, shared.k[k_ring.slot], tile, &b.k_full[k_ring.slot]);
      k_ring.advance();
    }
    __device__ __forceinline__ void fetch_values(int tile, const Boxes& boxes) {
      Barriers& b = shared.barriers;
      bulk_wait(&b.v_empty[v_ring.slot], v_ring.parity ^ 1);
      boxes.template fetch<kPartsV>(v_map, shared.v[v_ring.slot], tile, &b.v_full[v_ring.slot]);
      v_ring.advance();
    }
    __device__ __forceinline__ void fetch_item(const Work& work) {
      const Boxes boxes(args, work.sequence, work.batch, work.head);
      fetch_queries(work);
      const int last = work.first_tile + work.tiles - 1;
      fetch_keys(last, boxes);
      for (int tile = last - 1; tile >= work.first_tile; --tile) {
        fetch_keys(tile, boxes);
        fetch_values(tile + 1, boxes);
      }
      fetch_values(work.first_tile, boxes);
    }

    __device__ __forceinline__ void run() {
      const int items = args.batch * S::kQHeads * ceil_div(args.q_len, kTileM);
      int* const counter = static_cast<int*>(args.workspace);  // zero again after the last item
      for (int item = blockIdx.x; item >= 0;) {
        int next = -1;
        Work work{};
        if (item < items) {
          const int drawn = atomicAdd(counter, 1);
          if (drawn == items - 1) *counter = 0;
          next = drawn + gridDim.x;
          work = work_of(args, item);
          if (work.rows <= 0 && !S::kLse) {
            item = next;
            continue;
          }
        }
        bulk_wait(&shared.barriers.q_empty[q_ring.slot], q_ring.parity ^ 1);
        shared.items[q_ring.slot] = item < items ? item : -1;
        if (work.tiles > 0)
          fetch_item(work);
        else
          barrier_arrive(&shared.barriers.q_full[q_ring.slot]);
        q_ring.advance();
        item = next;
      }
    }
  };

  /// A warpgroup that computes: queries 64 * nth and on of each item. A thread holds parts of two rows, lane
  /// / 4 and lane / 4 + 8 of its warp's 16.
  struct Consumer {
    static constexpr float kSlack = kLazy ? 8.0f : 0.0f;  // a maximum may be 2^kSlack too small

    const AttentionPrefillArgs& args;
    Shared& shared;
    const int nth, lane, row, my_turn, next_turn;
    const unsigned q, k, v;
    const float scale, slack;
    QRing q_ring;
    Ring k_ring, v_ring;
    float s[kTileN / 2], o[kHeadDimV / 2];
    unsigned p[kTileN / 16][4];
    float row_max[2], row_sum[2];
    float shrink[2];  // what o is yet to be multiplied with
    int seen[2];      // keys below the last that a row sees, counted from this thread's first of the tile
    ScoreBias<T, S> bias;
    Dropout<S> dropout;
    int query, key;  // of this thread's first score of the tile; for bias and dropout
    unsigned biases[S::kAdditive ? kTileN / 4 : 1];  // of the tile, on their way under the products

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
          scale(S::kBias ? 1.0f : args.scale * kLog2e),
          slack(kSlack / scale) {}

    __device__ __forceinline__ void release(BulkBarrier* barrier) const {
      __syncwarp();
      if (lane == 0) barrier_arrive(barrier);
    }
    __device__ __forceinline__ void wait_for_keys() const {
      bulk_wait(&shared.barriers.k_full[k_ring.slot], k_ring.parity);
    }
    __device__ __forceinline__ void wait_for_values() const {
      bulk_wait(&shared.barriers.v_full[v_ring.slot], v_ring.parity);
    }
    __device__ __forceinline__ void release_queries() {
      release(&shared.barriers.q_empty[q_ring.slot]);
      q_ring.advance();
    }
    __device__ __forceinline__ void release_keys() {
      release(&shared.barriers.k_empty[k_ring.slot]);
      k_ring.advance();
    }
    __device__ __forceinline__ void release_values() {
      release(&shared.barriers.v_empty[v_ring.slot]);
      v_ring.advance();
    }

    /// s = q . k^T, not waited for.
    __device__ __forceinline__ void issue_scores() {
      const unsigned long long a = wgmma_swizzled(q + q_ring.slot * (kParts * kPartM)),
                               b = wgmma_swizzled(k + k_ring.slot * (kParts * kPartN));
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
      const unsigned long long b = wgmma_swizzled(v + v_ring.slot * (kPartsV * kPartN), kPartN);
      wgmma_hold(o);
      wgmma_hold(p);
      wgmma_begin();
#pragma unroll
      for (int kk = 0; kk < kTileN / 16; ++kk)
        wgmma<T, kHeadDimV>(o, p[kk], wgmma_advance(b, kk * 2048), true);
      wgmma_commit();
    }
    /// The scores of a tile and the output of the one before it: the scores are waited for.
    __device__ __forceinline__ void issue_both() {
      if constexpr (kTurns) named_barrier_sync(my_turn, 256);
      issue_scores();
      wait_for_values();
      issue_output();
      if constexpr (kTurns) named_barrier_arrive(next_turn, 256);
      wgmma_wait<1>();
      release_keys();
    }
    __device__ __forceinline__ void wait_for_output() {
      wgmma_wait<0>();
      wgmma_hold(o);
      wgmma_hold(p);
      release_values();
    }

    /// The scores as fragments of a warp's 16 queries by 8 keys.
    __device__ __forceinline__ auto fragments() -> float (&)[1][kTileN / 8][4] {
      return reinterpret_cast<float(&)[1][kTileN / 8][4]>(s);
    }
    __device__ __forceinline__ void add_biases() {
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i) {
        const T low{static_cast<unsigned short>(biases[i])},
            high{static_cast<unsigned short>(biases[i] >> 16)};
        s[2 * i] = fmaf(s[2 * i], args.scale * kLog2e, to_float(low) * kLog2e);
        s[2 * i + 1] = fmaf(s[2 * i + 1], args.scale * kLog2e, to_float(high) * kLog2e);
      }
    }
    /// Scores become probabilities; maxima and sums go on.
    template <bool kMask>
    __device__ __forceinline__ void soften() {
      wgmma_hold(s);
      if constexpr (S::kAlibi) add_bias(fragments(), bias, args.scale * kLog2e, query, key);
      if constexpr (S::kAdditive) add_biases();
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if constexpr (kMask) {
#pragma unroll
          for (int i = 0; i < kTileN / 4; ++i) {
            const int key = i / 2 * 8 + i % 2;
            if (key >= seen[r] || (S::kWindow && key < seen[r] - args.window))
              s[i / 2 * 4 + r * 2 + i % 2] = -WARPTUNE_INFINITY;
          }
        }
        float most[2] = {row_max[r], row_max[r]};
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) most[i % 2] = fmaxf(most[i % 2], s[i / 2 * 4 + r * 2 + i % 2]);
        most[0] = fmaxf(most[0], most[1]);
        most[0] = fmaxf(most[0], __shfl_xor_sync(0xffffffffu, most[0], 1));
        most[0] = fmaxf(most[0], __shfl_xor_sync(0xffffffffu, most[0], 2));
        const bool moves = !kLazy || most[0] > row_max[r] + slack;
        if (!moves) most[0] = row_max[r];
        // a row that saw no key yet has no maximum
        const bool saw_none = (kMask || S::kAdditive) && most[0] == -WARPTUNE_INFINITY;
        const float offset = saw_none ? 0.0f : most[0] * scale;
        shrink[r] = moves ? exp2_fast(fmaf(row_max[r], scale, -offset)) : 1.0f;
        row_max[r] = most[0];
        float sum[2] = {row_sum[r] * shrink[r], 0};
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) {
          float& score = s[i / 2 * 4 + r * 2 + i % 2];
          score = fmaf(score, scale, -offset);
          score = kPoly > 0 && i % max_of(kPoly, 1) == 1 ? exp2_polynomial(score) : exp2_fast(score);
          sum[i % 2] += score;
        }
        row_sum[r] = sum[0] + sum[1];
      }
      if constexpr (S::kDropout) drop_weights(fragments(), dropout, query, key);
      wgmma_hold(s);
    }
    __device__ __forceinline__ void pack_probabilities() {
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i) p[i / 4][i % 4] = pack2<T>(s[2 * i], s[2 * i + 1]);
    }
    __device__ __forceinline__ void rescale() {
      if (kLazy && !__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
      for (int i = 0; i < kHeadDimV / 2; ++i) o[i] *= shrink[i / 2 % 2];
    }

    /// Values past the last key may be anything, and 0 * NaN is NaN: zeros in the first tile of the walk.
    __device__ __forceinline__ void clear_values_past(int valid) {
      if (valid >= kTileN) return;
      wait_for_values();
      const int pieces = (kTileN - valid) * 8;
      for (int i = threadIdx.x % 128; i < kPartsV * pieces; i += 128) {
        const int part = i / pieces, piece = i - part * pieces;
        *reinterpret_cast<uint4*>(shared.v[v_ring.slot] + part * kPartN + valid * 128 + piece * 16) =
            make_uint4(0, 0, 0, 0);
      }
      wgmma_publish();
      named_barrier_sync(1 + kConsumers + nth, 128);
    }

    /// The next item that sees keys, its queries there; of those before it that see none, zeros. False: none.
    __device__ __forceinline__ bool take(Work& work) {
      for (;;) {
        bulk_wait(&shared.barriers.q_full[q_ring.slot], q_ring.parity);
        const int item = shared.items[q_ring.slot];
        if (item < 0) return false;
        work = work_of(args, item);
        if (work.tiles > 0) return true;
        release_queries();
        const float none[2] = {};
        store<true>(work, none, none);
      }
    }

    /// Before the first tile of an item.
    __device__ __forceinline__ void begin(const Work& work) {
      const int first_key = (work.first_tile + work.tiles - 1) * kTileN + lane % 4 * 2;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        row_max[r] = -WARPTUNE_INFINITY, row_sum[r] = 0;
        seen[r] = visible_keys<S::kCausal>(work.sequence, work.first_row + row + 8 * r) - first_key;
      }
      query = work.first_row + row, key = first_key;
      bias = ScoreBias<T, S>(args, work.sequence, work.head);
      dropout = Dropout<S>(args, work.batch, work.head);
      if constexpr (S::kAdditive) bias.template fetch<false>(biases, query, key);
    }
    /// After the softmax of the first tile.
    __device__ __forceinline__ void start_output(const Work& work) {
#pragma unroll
      for (int i = 0; i < kHeadDimV / 2; ++i) o[i] = 0;
      pack_probabilities();
      clear_values_past(work.sequence.kv_len - (work.first_tile + work.tiles - 1) * kTileN);
    }

    /// A further tile. Its keys are there; `more`: another follows.
    template <bool kMask>
    __device__ __forceinline__ void step(bool more) {
      if constexpr (kMask) seen[0] += kTileN, seen[1] += kTileN;
      key -= kTileN;
      if constexpr (S::kAdditive) bias.template fetch<true>(biases, query, key);
      issue_both();
      soften<kMask>();
      if (more)
        wait_for_keys();  // here, since no branch: the compiler would move the softmax past wgmma_wait()
      wait_for_output();
      rescale();
      pack_probabilities();
    }
    /// All tiles of an item but the first.
    __device__ __forceinline__ void walk(const Work& work) {
      if (work.tiles > 1) wait_for_keys();
      int tile = 1;
      for (; tile < work.masked; ++tile) step<true>(tile + 1 < work.tiles);
      for (; tile < work.tiles; ++tile) step<false>(tile + 1 < work.tiles);
      release_queries();
    }
    /// The first tile of an item and the end of the one before it.
    __device__ __forceinline__ void go_on(const Work& last, const Work& work) {
      const float last_max[2] = {row_max[0], row_max[1]}, last_sum[2] = {row_sum[0], row_sum[1]};
      begin(work);
      wait_for_keys();
      issue_both();
      soften<true>();
      wait_for_output();
      store<false>(last, last_max, last_sum);
      start_output(work);
    }

    /// Of the rows of an item; kZeros: zeros, and o is not looked at.
    template <bool kZeros>
    __device__ __forceinline__ void store(const Work& work, const float (&max)[2],
                                          const float (&sums)[2]) const {
      constexpr long long kStride = static_cast<long long>(S::kQHeads) * kHeadDimV;
      T* const out = static_cast<T*>(args.out) + (work.sequence.first + work.first_row) * kStride +
                     work.head * kHeadDimV;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = sums[r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const int nth_row = row + 8 * r;
        const bool is_query = nth_row < work.rows;
        if (S::kLse && lane % 4 == 0 && work.first_row + nth_row < ceil_div(args.q_len, 32) * 32)
          lse_rows<S>(args, work.batch, work.head)[work.first_row + nth_row] =
              is_query ? lse_of(max[r] * scale, sum) : WARPTUNE_INFINITY;
        const float inverse = normalizer<S>(args, sum);
#pragma unroll
        for (int first = 0; first < kHeadDimV / 8; first += 4) {
          unsigned piece[4] = {};
          if constexpr (!kZeros) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              if (first + i < kHeadDimV / 8)
                piece[i] =
                    pack2<T>(o[(first + i) * 4 + r * 2] * inverse, o[(first + i) * 4 + r * 2 + 1] * inverse);
            transpose_quad(piece);
          }
          const int chunk = first + lane % 4;
          if (is_query && chunk < kHeadDimV / 8)
            *reinterpret_cast<uint4*>(out + nth_row * kStride + chunk * 8) =
                make_uint4(piece[0], piece[1], piece[2], piece[3]);
        }
      }
    }

    __device__ __forceinline__ void run() {
      if (kTurns && nth == kConsumers - 1) named_barrier_arrive(next_turn, 256);
      Work work;
      if (take(work)) {
        begin(work);
        wait_for_keys();
        issue_scores();
        wgmma_wait<0>();
        release_keys();
        soften<true>();
        start_output(work);
        for (Work next;; work = next) {
          walk(work);
          if (!take(next)) break;
          go_on(work, next);
        }
        wait_for_values();
        issue_output();
        wait_for_output();
        store<false>(work, row_max, row_sum);
      }
      if (kTurns && nth == 0) named_barrier_sync(my_turn, 256);  // the last arrival
    }
  };

  static __device__ __forceinline__ void run(const AttentionPrefillArgs& args, const TensorMap& q_map,
                                             const TensorMap& k_map, const TensorMap& v_map,
                                             unsigned char* memory) {
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      Barriers& b = shared.barriers;
      for (int i = 0; i < kQueries; ++i)
        barrier_init(&b.q_full[i], 1), barrier_init(&b.q_empty[i], 4 * kConsumers);
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&b.k_full[i], 1), barrier_init(&b.v_full[i], 1);
        barrier_init(&b.k_empty[i], 4 * kConsumers), barrier_init(&b.v_empty[i], 4 * kConsumers);
      }
      bulk_barriers_ready();
      tensor_map_prefetch(q_map);
      tensor_map_prefetch(k_map);
      tensor_map_prefetch(v_map);
    }
    __syncthreads();
    pdl_wait();
    if (group == 0) {
      if constexpr (kConsumers > 1) give_registers_back<kConsumers == 3 ? 32 : kManyRegisters ? 24 : 40>();
      if (threadIdx.x == 0) Producer{args, q_map, k_map, v_map, shared}.run();
    } else {
      if constexpr (kConsumers > 1) take_registers<kConsumers == 3 ? 160 : kManyRegisters ? 240 : 232>();
      Consumer(args, shared, group - 1).run();
    }
  }
};

/// The workspace: an int, zero before and after.
template <class T, class S, int kConsumers, int kTileN, int kStages, int kQueries, bool kTurns, int kTogether,
          bool kLazy, int kPoly>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    attention_prefill_flash_wgmma(AttentionPrefillArgs args, const __grid_constant__ TensorMap q_map,
                                  const __grid_constant__ TensorMap k_map,
                                  const __grid_constant__ TensorMap v_map) {
  extern __shared__ __align__(1024) unsigned char memory[];
  FlashWgmma<T, S, kConsumers, kTileN, kStages, kQueries, kTurns, kTogether, kLazy, kPoly>::run(
      args, q_map, k_map, v_map, memory);
}

}  // namespace warptune
