// Idea: warp-specialised flash attention for Hopper (Shah et al., "FlashAttention-3", 2024). One thread
// fetches: it asks the tensor memory accelerator for queries, a tile ahead, and for K and V tiles, kStages
// deep (tile_rings.cuh; packed and paged keys are other boxes, key_boxes.cuh). kConsumers warpgroups compute,
// 64 queries each: Q.K^T from shared memory, P.V with P in registers (row_softmax.cuh). Q.K^T of the next
// tile is issued before P.V of this one, so that its softmax runs under P.V, from one item of work to the
// next too: its output is stored, by way of the queries' place in shared memory, while the first scores of
// the next are there. And consumers take turns in issuing (kTurns), so that one's softmax runs under the
// other's products. Tiles of keys are walked from the last visible one down: those that need a mask come
// first, the rest runs without. Blocks are persistent and draw their work
// (work_list.cuh) while the last tile of the item before it is fetched.
#include "kernels/attention_prefill/key_boxes.cuh"
#include "kernels/attention_prefill/row_softmax.cuh"
#include "kernels/attention_prefill/tile_rings.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/common/wgmma.cuh"

namespace warptune {

template <class T, class S, int kConsumers, int kTileN, int kStages, bool kTurns, int kTogether>
struct FlashWgmma {
  using Rings = TileRings<S, kConsumers, kTileN, kStages>;
  using Boxes = KeyBoxes<S, kTileN>;
  using Softmax = RowSoftmax<T, S, kTileN>;
  static constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV, kTileM = Rings::kTileM;
  static constexpr int kPartM = Rings::kPartM, kPartN = Rings::kPartN;
  static constexpr bool kManyRegisters = kHeadDimV / 2 + kTileN * 3 / 4 > 190;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0 && kTileN % 16 == 0);

  /// One thread: the items of this block, the queries of each, and K of a tile and V of the tile before it in
  /// turn, as they are read, from one item to the next too.
  struct Producer {
    const AttentionPrefillArgs& args;
    const TensorMap &q_map, &k_map, &v_map;
    Rings& rings;
    typename Rings::QRing q_ring;
    typename Rings::WorkRing work_ring;
    typename Rings::KeyRing k_ring, v_ring;
    WorkList<S, kTileM, kTileN, kTogether> list;

    __device__ __forceinline__ Producer(const AttentionPrefillArgs& args, const TensorMap& q_map,
                                        const TensorMap& k_map, const TensorMap& v_map, Rings& rings)
        : args(args), q_map(q_map), k_map(k_map), v_map(v_map), rings(rings), list(args) {}

    __device__ __forceinline__ const Work& take() {
      Work& work = rings.works[work_ring.slot];
      work_ring.advance();
      return list.take(work);
    }
    __device__ __forceinline__ void fetch_queries(const Work& work) {
      Mbarrier* const full = &rings.barriers.q_full[q_ring.slot];
      mbarrier_arrive_expect_tx(full, Rings::kParts * kPartM);
#pragma unroll
      for (int part = 0; part < Rings::kParts; ++part)
        tma_load_3d(rings.q[q_ring.slot] + part * kPartM, q_map, part * 64, work.head,
                    work.sequence.first + work.first_row, full);
    }
    __device__ __forceinline__ void fetch_keys(int tile, const Boxes& boxes) {
      mbarrier_wait(&rings.barriers.k_empty[k_ring.slot], k_ring.parity ^ 1);
      boxes.template fetch<Rings::kParts>(k_map, rings.k[k_ring.slot], tile,
                                          &rings.barriers.k_full[k_ring.slot]);
      k_ring.advance();
    }
    __device__ __forceinline__ void fetch_values(int tile, const Boxes& boxes) {
      mbarrier_wait(&rings.barriers.v_empty[v_ring.slot], v_ring.parity ^ 1);
      boxes.template fetch<Rings::kPartsV>(v_map, rings.v[v_ring.slot], tile,
                                           &rings.barriers.v_full[v_ring.slot]);
      v_ring.advance();
    }
    __device__ __forceinline__ void run() {
      const Work* last = nullptr;  // whose first tile of values is yet to be fetched
      for (const Work* work = &take();; work = &take()) {
        mbarrier_wait(&rings.barriers.q_empty[q_ring.slot], q_ring.parity ^ 1);
        const bool ends = work->head == Work::kNone, walks = !ends && work->tiles > 0;
        if (walks) {
          fetch_queries(*work);
          fetch_keys(work->last_tile(), boxes_of(*work));
        } else {
          mbarrier_arrive(&rings.barriers.q_full[q_ring.slot]);
        }
        q_ring.advance();
        if (!ends && work->tiles < 2) list.ask();
        if (last != nullptr) fetch_values(last->first_tile, boxes_of(*last));
        last = walks ? work : nullptr;
        if (ends) return;
        const Boxes boxes = boxes_of(*work);
        for (int tile = work->last_tile() - 1; tile >= work->first_tile; --tile) {
          if (tile == work->first_tile) list.ask();
          fetch_keys(tile, boxes);
          fetch_values(tile + 1, boxes);
        }
      }
    }
    __device__ __forceinline__ Boxes boxes_of(const Work& work) const {
      return Boxes(args, work.sequence, work.batch, work.head);
    }
  };

  /// A warpgroup that computes: queries 64 * nth and on of each item. A thread holds parts of two rows, lane
  /// / 4 and lane / 4 + 8 of its warp's 16.
  struct Consumer {
    const AttentionPrefillArgs& args;
    Rings& rings;
    const int nth, lane, my_turn, next_turn;
    const unsigned q, k, v;
    Softmax softmax;
    typename Rings::QRing q_ring;
    typename Rings::WorkRing work_ring;
    typename Rings::KeyRing k_ring, v_ring;
    float o[kHeadDimV / 2];
    unsigned p[kTileN / 16][4];

    __device__ __forceinline__ Consumer(const AttentionPrefillArgs& args, Rings& rings, int nth)
        : args(args),
          rings(rings),
          nth(nth),
          lane(threadIdx.x % 32),
          my_turn(1 + nth),
          next_turn(1 + (nth + 1) % kConsumers),
          q(shared_address(rings.q) + nth * 64 * 128),
          k(shared_address(rings.k)),
          v(shared_address(rings.v)),
          softmax(args, lane, first_row() + lane / 4) {}

    /// Of this warp's 16, of the item's.
    __device__ __forceinline__ int first_row() const { return nth * 64 + threadIdx.x % 128 / 32 * 16; }

    __device__ __forceinline__ void release(Mbarrier* barrier) const {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(barrier);
    }
    __device__ __forceinline__ void wait_for_keys() const {
      mbarrier_wait(&rings.barriers.k_full[k_ring.slot], k_ring.parity);
    }
    __device__ __forceinline__ void wait_for_values() const {
      mbarrier_wait(&rings.barriers.v_full[v_ring.slot], v_ring.parity);
    }
    __device__ __forceinline__ void release_keys() {
      release(&rings.barriers.k_empty[k_ring.slot]);
      k_ring.advance();
    }
    __device__ __forceinline__ void release_values() {
      release(&rings.barriers.v_empty[v_ring.slot]);
      v_ring.advance();
    }

    /// Scores = q . k^T, not waited for.
    __device__ __forceinline__ void issue_scores() {
      const unsigned long long a = wgmma_descriptor_swizzle_128b(q + q_ring.slot * (Rings::kPartsQ * kPartM)),
                               b = wgmma_descriptor_swizzle_128b(k + k_ring.slot * (Rings::kParts * kPartN));
      warpgroup_fence_operand(softmax.s);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kHeadDim / 16; ++kk)
        wgmma<T, kTileN>(softmax.s, wgmma_descriptor_advance(a, kk / 4 * kPartM + kk % 4 * 32),
                         wgmma_descriptor_advance(b, kk / 4 * kPartN + kk % 4 * 32), kk > 0);
      warpgroup_commit_batch();
    }
    /// o += p . v, not waited for.
    __device__ __forceinline__ void issue_output() {
      const unsigned long long b =
          wgmma_descriptor_swizzle_128b(v + v_ring.slot * (Rings::kPartsV * kPartN), kPartN);
      warpgroup_fence_operand(o);
      warpgroup_fence_operand(p);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kTileN / 16; ++kk)
        wgmma<T, kHeadDimV>(o, p[kk], wgmma_descriptor_advance(b, kk * 2048), true);
      warpgroup_commit_batch();
    }
    /// The scores of a tile and the output of the one before it: the scores are waited for.
    __device__ __forceinline__ void issue_both() {
      if constexpr (kTurns) named_barrier_sync(my_turn, 256);
      issue_scores();
      wait_for_values();
      issue_output();
      if constexpr (kTurns) named_barrier_arrive(next_turn, 256);
      warpgroup_wait<1>();
      release_keys();
    }
    __device__ __forceinline__ void wait_for_output() {
      warpgroup_wait<0>();
      warpgroup_fence_operand(o);
      warpgroup_fence_operand(p);
      release_values();
    }

    __device__ __forceinline__ void warpgroup_barrier() const {
      named_barrier_sync(1 + kConsumers + nth, 128);
    }
    /// Values past the last key may be anything, and 0 * NaN is NaN: zeros in the first tile of the walk.
    __device__ __forceinline__ void clear_values_past(int valid) {
      if (valid >= kTileN) return;
      wait_for_values();
      const int pieces = (kTileN - valid) * 8;
      for (int i = threadIdx.x % 128; i < Rings::kPartsV * pieces; i += 128) {
        const int part = i / pieces, piece = i - part * pieces;
        *reinterpret_cast<uint4*>(rings.v[v_ring.slot] + part * kPartN + valid * 128 + piece * 16) =
            make_uint4(0, 0, 0, 0);
      }
      fence_proxy_async();
      warpgroup_barrier();
    }

    /// The next item, its queries there.
    __device__ __forceinline__ const Work& take() {
      mbarrier_wait(&rings.barriers.q_full[q_ring.slot], q_ring.parity);
      const Work& work = rings.works[work_ring.slot];
      work_ring.advance();
      return work;
    }

    /// After the softmax of the first tile.
    __device__ __forceinline__ void start_output(const Work& work) {
#pragma unroll
      for (int i = 0; i < kHeadDimV / 2; ++i) o[i] = 0;
      softmax.pack(p);
      clear_values_past(work.sequence.kv_len - work.last_tile() * kTileN);
    }

    /// A further tile. Its keys are there; `more`: another follows.
    template <bool kMask>
    __device__ __forceinline__ void step(bool more) {
      softmax.template go_down<kMask>();
      issue_both();
      softmax.template soften<kMask>();
      if (more)
        wait_for_keys();  // here, since no branch: the compiler would move the softmax past warpgroup_wait()
      wait_for_output();
      softmax.pack(p);  // before: the compiler's order of the whole step is better
      softmax.rescale(o);
    }
    /// The first tile of an item, after nothing.
    __device__ __forceinline__ void start(const Work& work) {
      softmax.begin(work);
      wait_for_keys();
      issue_scores();
      warpgroup_wait<0>();
      release_keys();
      softmax.template soften<true>();
      start_output(work);
    }
    /// The first tile of an item and the end of the one before it.
    __device__ __forceinline__ void go_on(const Work& last, const Work& work) {
      const RowSums last_sums = softmax.sums;
      softmax.begin(work);
      wait_for_keys();
      issue_both();
      softmax.template soften<true>();
      wait_for_output();
      store(last, last_sums);
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
      store(work, softmax.sums);
    }

    /// Writes this warp's 16 rows, 16 bytes at a time: what(row, piece).
    template <class What>
    __device__ __forceinline__ void put_rows(const Work& work, What what) const {
      constexpr long long kStride = static_cast<long long>(S::kQHeads) * kHeadDimV;
      constexpr int kPieces = kHeadDimV / 8, kPerLane = kPieces / 2;
      const int first = first_row();
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
    __device__ __forceinline__ void store(const Work& work, const RowSums& sums) {
      float inverse[2];
      softmax.finish(work, sums, inverse);
      const int slot = q_ring.slot ^ 1, first = first_row();
      unsigned char* const rows = rings.q[slot] + first * 128;
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
        stmatrix_x4(shared_address(rows) + at(lane % 16, i * 2 + lane / 16), x);
      }
      __syncwarp();
      put_rows(work,
               [&](int row, int piece) { return *reinterpret_cast<const uint4*>(rows + at(row, piece)); });
      fence_proxy_async();
      release(&rings.barriers.q_empty[slot]);
    }
    /// Of an item that sees no keys.
    __device__ __forceinline__ void store_zeros(const Work& work) {
      float inverse[2];
      softmax.finish(work, RowSums{}, inverse);
      put_rows(work, [](int, int) { return uint4{}; });
      release(&rings.barriers.q_empty[q_ring.slot]);
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
    Rings& rings = *reinterpret_cast<Rings*>(memory);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      rings.init_barriers();
      tma_prefetch_descriptor(q_map);
      tma_prefetch_descriptor(k_map);
      tma_prefetch_descriptor(v_map);
    }
    __syncthreads();
    pdl_wait();
    if (group == 0) {
      if constexpr (kConsumers > 1) warpgroup_reg_dealloc<kConsumers == 3 ? 32 : kManyRegisters ? 24 : 40>();
      if (threadIdx.x == 0) Producer(args, q_map, k_map, v_map, rings).run();
    } else {
      if constexpr (kConsumers > 1) warpgroup_reg_alloc<kConsumers == 3 ? 160 : kManyRegisters ? 240 : 232>();
      Consumer(args, rings, group - 1).run();
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
