// Idea: warp-specialised flash attention for Hopper (Shah et al., "FlashAttention-3", 2024). One thread
// fetches: it asks the tensor memory accelerator for queries, a tile ahead, and for K and V tiles, kStages
// deep. kConsumers warpgroups compute, 64 queries each: Q.K^T from shared memory, P.V with P in registers.
// Q.K^T of the next tile is issued before P.V of this one, so that its softmax runs under P.V, from one item
// of work to the next too: its output is stored, by way of the queries' place in shared memory, while the
// first scores of the next are there. And consumers take turns in issuing (kTurns), so that one's softmax
// runs under the other's products. Tiles of keys are walked from the last visible one down: those that need a
// mask come first, the rest runs without. Blocks are persistent and draw their work, the longest first, from
// a counter, an item ahead. Maxima stay until they would grow by more than 2^8, so that the output is seldom
// rescaled ("FlashAttention-4", 2025).
//
// Scores lie in registers as those of m16n8 products do, so that bias and dropout are flash_mma's; an
// additive bias is on its way under the products. Packed and paged keys are other boxes (key_boxes.cuh).
#include "attention_prefill/key_boxes.cuh"
#include "attention_prefill/score_tile.cuh"
#include "attention_prefill/sequence.cuh"
#include "common/exp2.cuh"
#include "common/pdl.cuh"
#include "common/store_matrix.cuh"
#include "common/tensor_copy.cuh"
#include "common/vec.cuh"
#include "common/wgmma.cuh"

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

/// Which slot of a ring comes next, and how often it was used before, modulo 2.
template <int kSlots>
struct RingPosition {
  int slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};

template <class T, class S, int kConsumers, int kTileN, int kStages, bool kTurns, int kTogether>
struct FlashWgmma {
  static constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV, kTileM = 64 * kConsumers;
  // Of 64 elements, each a swizzled matrix.
  static constexpr int kParts = ceil_div(kHeadDim, 64), kPartsV = ceil_div(kHeadDimV, 64);
  static constexpr int kPartM = kTileM * 128, kPartN = kTileN * 128;
  static constexpr int kQueries = 2, kPartsQ = max_of(kParts, kPartsV);  // queries, and later their output
  static constexpr bool kManyRegisters = kHeadDimV / 2 + kTileN * 3 / 4 > 190;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0 && kTileN % 16 == 0);
  using QRing = RingPosition<kQueries>;
  using WorkRing = RingPosition<kQueries + 1>;
  using Ring = RingPosition<kStages>;
  using Boxes = KeyBoxes<S, kTileN>;

  struct Barriers {
    BulkBarrier q_full[kQueries], q_empty[kQueries];
    BulkBarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  };
  struct Shared {  // aligned to 1024
    unsigned char q[kQueries][kPartsQ * kPartM], k[kStages][kParts * kPartN], v[kStages][kPartsV * kPartN];
    Barriers barriers;
    Work works[kQueries + 1];  // of the queries in shared memory, and of those to come
  };

  /// One thread: the items of this block, the queries of each, and K of a tile and V of the tile before it in
  /// turn, as they are read, from one item to the next too.
  struct Producer {
    const AttentionPrefillArgs& args;
    const TensorMap &q_map, &k_map, &v_map;
    Shared& shared;
    const int items;
    int item;
    QRing q_ring;
    WorkRing work_ring;
    Ring k_ring, v_ring;

    __device__ __forceinline__ Producer(const AttentionPrefillArgs& args, const TensorMap& q_map,
                                        const TensorMap& k_map, const TensorMap& v_map, Shared& shared)
        : args(args),
          q_map(q_map),
          k_map(k_map),
          v_map(v_map),
          shared(shared),
          items(args.batch * S::kQHeads * ceil_div(args.q_len, kTileM)),
          item(blockIdx.x) {}

    /// The next item that has anything to store.
    __device__ __forceinline__ Work& draw() {
      int* const counter = static_cast<int*>(args.workspace);  // zero again after the last item
      Work& work = shared.works[work_ring.slot];
      work_ring.advance();
      for (;;) {
        if (item >= items) {
          work.head = Work::kNone;
          return work;
        }
        work = find_work<S, kTileM, kTileN, kTogether>(args, item);
        const int drawn = atomicAdd(counter, 1);
        if (drawn == items - 1) *counter = 0;
        item = drawn + gridDim.x;
        if (work.rows > 0 || S::kLse) return work;
      }
    }
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
    __device__ __forceinline__ void run() {
      const Work* last = nullptr;  // whose first tile of values is yet to be fetched
      for (const Work* work = &draw();;) {
        bulk_wait(&shared.barriers.q_empty[q_ring.slot], q_ring.parity ^ 1);
        const bool ends = work->head == Work::kNone, walks = !ends && work->tiles > 0;
        if (walks) {
          fetch_queries(*work);
          fetch_keys(work->last_tile(), boxes_of(*work));
        } else {
          barrier_arrive(&shared.barriers.q_full[q_ring.slot]);
        }
        q_ring.advance();
        if (last != nullptr) fetch_values(last->first_tile, boxes_of(*last));
        last = walks ? work : nullptr;
        if (ends) return;
        const Work* const next = &draw();
        if (walks) {
          const Boxes boxes = boxes_of(*work);
          for (int tile = work->last_tile() - 1; tile >= work->first_tile; --tile) {
            fetch_keys(tile, boxes);
            fetch_values(tile + 1, boxes);
          }
        }
        work = next;
      }
    }
    __device__ __forceinline__ Boxes boxes_of(const Work& work) const {
      return Boxes(args, work.sequence, work.batch, work.head);
    }
  };

  /// A warpgroup that computes: queries 64 * nth and on of each item. A thread holds parts of two rows, lane
  /// / 4 and lane / 4 + 8 of its warp's 16.
  struct Consumer {
    static constexpr float kSlack = 8;  // a maximum may be 2^kSlack too small

    const AttentionPrefillArgs& args;
    Shared& shared;
    const int nth, lane, row, my_turn, next_turn;
    const unsigned q, k, v;
    const float scale, slack;
    QRing q_ring;
    WorkRing work_ring;
    Ring k_ring, v_ring;
    float s[kTileN / 2], o[kHeadDimV / 2];
    unsigned p[kTileN / 16][4];
    float row_max[2], row_sum[2];
    float offset[2];  // of the scores of a tile, in units of log2(e)
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
      const unsigned long long a = wgmma_swizzled(q + q_ring.slot * (kPartsQ * kPartM)),
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
    /// Masks scores that are not seen, and moves the maxima on.
    template <bool kMask>
    __device__ __forceinline__ void find_maxima() {
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
        float top = fmaxf(most[0], most[1]);
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const bool moves = top > row_max[r] + slack;
        if (!moves) top = row_max[r];
        // a row that saw no key yet has no maximum
        const bool saw_none = (kMask || S::kAdditive) && top == -WARPTUNE_INFINITY;
        offset[r] = saw_none ? 0.0f : top * scale;
        shrink[r] = moves ? exp2_fast(fmaf(row_max[r], scale, -offset[r])) : 1.0f;
        row_max[r] = top;
        row_sum[r] *= shrink[r];
      }
    }
    /// Scores become probabilities; maxima and sums go on.
    template <bool kMask>
    __device__ __forceinline__ void soften() {
      wgmma_hold(s);
      find_maxima<kMask>();
      float sum[2][2] = {};
#pragma unroll
      for (int i = 0; i < kTileN / 2; ++i) {
        const int r = i / 2 % 2;
        s[i] = exp2_fast(fmaf(s[i], scale, -offset[r]));
        sum[r][i % 2] += s[i];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) row_sum[r] += sum[r][0] + sum[r][1];
      if constexpr (S::kDropout) drop_weights(fragments(), dropout, query, key);
      wgmma_hold(s);
    }
    __device__ __forceinline__ void pack_probabilities() {
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i) p[i / 4][i % 4] = pack2<T>(s[2 * i], s[2 * i + 1]);
    }
    __device__ __forceinline__ void rescale() {
      if (!__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
      for (int i = 0; i < kHeadDimV / 2; ++i) o[i] *= shrink[i / 2 % 2];
    }

    __device__ __forceinline__ void warpgroup_barrier() const {
      named_barrier_sync(1 + kConsumers + nth, 128);
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
      warpgroup_barrier();
    }

    /// The next item, its queries there.
    __device__ __forceinline__ const Work& take() {
      bulk_wait(&shared.barriers.q_full[q_ring.slot], q_ring.parity);
      const Work& work = shared.works[work_ring.slot];
      work_ring.advance();
      return work;
    }

    /// Before the first tile of an item.
    __device__ __forceinline__ void begin(const Work& work) {
      const int first_key = work.last_tile() * kTileN + lane % 4 * 2;
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
      clear_values_past(work.sequence.kv_len - work.last_tile() * kTileN);
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
      pack_probabilities();  // before: the compiler's order of the whole step is better
      rescale();
    }
    /// The first tile of an item, after nothing.
    __device__ __forceinline__ void start(const Work& work) {
      begin(work);
      wait_for_keys();
      issue_scores();
      wgmma_wait<0>();
      release_keys();
      soften<true>();
      start_output(work);
    }
    /// The first tile of an item and the end of the one before it.
    __device__ __forceinline__ void go_on(const Work& last, const Work& work) {
      const float last_max[2] = {row_max[0], row_max[1]}, last_sum[2] = {row_sum[0], row_sum[1]};
      begin(work);
      wait_for_keys();
      issue_both();
      soften<true>();
      wait_for_output();
      store(last, last_max, last_sum);
      start_output(work);
    }
    /// All tiles of an item but the first.
    __device__ __forceinline__ void walk(const Work& work) {
      const int tiles = work.tiles, masked = work.masked;
      if (tiles > 1) wait_for_keys();
      int tile = 1;
      for (; tile < masked; ++tile) step<true>(tile + 1 < tiles);
      for (; tile < tiles; ++tile) step<false>(tile + 1 < tiles);
      q_ring.advance();
    }
    /// The end of an item, before nothing.
    __device__ __forceinline__ void finish(const Work& work) {
      wait_for_values();
      issue_output();
      wait_for_output();
      store(work, row_max, row_sum);
    }

    /// What becomes of the sums of this thread's rows: lse, and by what the rows are to be multiplied.
    __device__ __forceinline__ void finish_sums(const Work& work, const float (&max)[2],
                                                const float (&sums)[2], float (&inverse)[2]) const {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = sums[r];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        inverse[r] = normalizer<S>(args, sum);
        const int at = row + 8 * r;
        if (S::kLse && lane % 4 == 0 && work.first_row + at < ceil_div(args.q_len, 32) * 32)
          lse_rows<S>(args, work.batch, work.head)[work.first_row + at] =
              at < work.rows ? lse_of(max[r] * scale, sum) : WARPTUNE_INFINITY;
      }
    }
    /// Writes this warp's 16 rows, 16 bytes at a time: what(row, piece).
    template <class What>
    __device__ __forceinline__ void put_rows(const Work& work, What what) const {
      constexpr long long kStride = static_cast<long long>(S::kQHeads) * kHeadDimV;
      constexpr int kPieces = kHeadDimV / 8, kPerLane = kPieces / 2;
      const int first = nth * 64 + threadIdx.x % 128 / 32 * 16;
      T* const out = static_cast<T*>(args.out) + (work.sequence.first + work.first_row + first) * kStride +
                     work.head * kHeadDimV;
      uint4 x[kPerLane];
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) x[i] = what((i * 32 + lane) / kPieces, (i * 32 + lane) % kPieces);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int row = (i * 32 + lane) / kPieces, piece = (i * 32 + lane) % kPieces;
        if (first + row < work.rows) *reinterpret_cast<uint4*>(out + row * kStride + piece * 8) = x[i];
      }
    }
    /// o, by way of the rows of shared memory that were this warp's queries, swizzled as they were.
    __device__ __forceinline__ void store(const Work& work, const float (&max)[2], const float (&sums)[2]) {
      float inverse[2];
      finish_sums(work, max, sums, inverse);
      const int slot = q_ring.slot ^ 1, first = nth * 64 + threadIdx.x % 128 / 32 * 16;
      unsigned char* const rows = shared.q[slot] + first * 128;
      const auto at = [](int row, int piece) {
        return piece / 8 * kPartM + row * 128 + ((piece % 8 ^ row % 8) << 4);
      };
      warpgroup_barrier();  // no product of the warpgroup reads the queries any more
#pragma unroll
      for (int i = 0; i < kHeadDimV / 16; ++i) {
        unsigned x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          x[j] = pack2<T>(o[i * 8 + j * 2] * inverse[j % 2], o[i * 8 + j * 2 + 1] * inverse[j % 2]);
        store_matrix_x4_at(shared_address(rows) + at(lane % 16, i * 2 + lane / 16), x);
      }
      __syncwarp();
      put_rows(work,
               [&](int row, int piece) { return *reinterpret_cast<const uint4*>(rows + at(row, piece)); });
      wgmma_publish();
      release(&shared.barriers.q_empty[slot]);
    }
    /// Of an item that sees no keys.
    __device__ __forceinline__ void store_zeros(const Work& work) {
      const float none[2] = {};
      float inverse[2];
      finish_sums(work, none, none, inverse);
      put_rows(work, [](int, int) { return uint4{}; });
      release(&shared.barriers.q_empty[q_ring.slot]);
      q_ring.advance();
    }

    __device__ __forceinline__ void run() {
      if (kTurns && nth == kConsumers - 1) named_barrier_arrive(next_turn, 256);
      for (const Work* last = nullptr;;) {
        const Work& work = take();
        const bool ends = work.head == Work::kNone, walks = !ends && work.tiles > 0;
        if (last != nullptr && walks) {
          go_on(*last, work);
        } else {
          if (last != nullptr) finish(*last);
          if (ends) break;
          if (!walks) {
            store_zeros(work);
            last = nullptr;
            continue;
          }
          start(work);
        }
        walk(work);
        last = &work;
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
      if (threadIdx.x == 0) Producer(args, q_map, k_map, v_map, shared).run();
    } else {
      if constexpr (kConsumers > 1) take_registers<kConsumers == 3 ? 160 : kManyRegisters ? 240 : 232>();
      Consumer(args, shared, group - 1).run();
    }
  }
};

/// The workspace: an int, zero before and after.
template <class T, class S, int kConsumers, int kTileN, int kStages, bool kTurns, int kTogether>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    attention_prefill_flash_wgmma(AttentionPrefillArgs args, const __grid_constant__ TensorMap q_map,
                                  const __grid_constant__ TensorMap k_map,
                                  const __grid_constant__ TensorMap v_map) {
  extern __shared__ __align__(1024) unsigned char memory[];
  FlashWgmma<T, S, kConsumers, kTileN, kStages, kTurns, kTogether>::run(args, q_map, k_map, v_map, memory);
}

}  // namespace warptune
