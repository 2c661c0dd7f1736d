// FlashAttention-3 on Hopper: persistent, warp-specialized, TMA and wgmma, ping-pong scheduling (sm_90a).
// Grid: persistent blocks; work tiles of 64 * kConsumers queries of a head, from an atomic counter, longest
//   first within an L2 section of kL2Swizzle heads (tile_scheduler.cuh). K/V tiles of kTileN keys are visited
//   from the last visible one down: the few that need a mask come first, the rest runs without (with a
//   window all are masked).
// Roles: one thread of the producer warpgroup issues all TMA loads, Q one work tile ahead. kConsumers
//   consumer warpgroups compute 64 queries each. setmaxnreg moves registers from producer to consumers.
// Pipeline: Q.K^T from shared memory (SS), P.V with P in registers (RS). Q.K^T of the next tile is issued
//   before P.V of this one, so that the softmax overlaps P.V, also across work tiles. kPingPong: consumers
//   issue their wgmma alternately (ping-pong), so that the softmax of one overlaps the wgmma of the other.
// Sync: full/empty mbarrier per stage of Q, K and V (tma_pipeline.cuh); named barriers for ping-pong.
// Shared memory: 2 Q tiles (which also stage the output), kStages K tiles, kStages V tiles, 128-byte swizzle.
// Epilogue: stmatrix into the Q tile of the work tile, then 16-byte global stores by each warp.
// Wins: on Hopper from 65 queries on, except some GQA prompts of 256 to 511 queries at head_dim 64.
// Source: FlashAttention-3 (Shah et al., 2024); lazy rescaling from FlashAttention-4.
#include "kernels/attention_prefill/tile_scheduler.cuh"
#include "kernels/attention_prefill/tma_pipeline.cuh"
#include "kernels/attention_prefill/wgmma_softmax.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/common/wgmma.cuh"

namespace warptune {

template <class T, class Shape, int kConsumers, int kTileN, int kStages, bool kPingPong, int kL2Swizzle>
struct FlashWgmma {
  using Storage = SharedStorage<Shape, kConsumers, kTileN, kStages>;
  using KvLoader = KvTmaLoader<Shape, kTileN>;
  using Softmax = WgmmaSoftmax<T, Shape, kTileN>;
  static constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV, kTileM = Storage::kTileM;
  static constexpr int kMatrixM = Storage::kMatrixM, kMatrixN = Storage::kMatrixN;
  static constexpr bool kManyRegisters = kHeadDimV / 2 + kTileN * 3 / 4 > 190;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0 && kTileN % 16 == 0);

  /// One thread. Loads Q of each work tile, and alternates K of a tile with V of the tile before it, as the
  /// consumers read them, also across work tiles.
  struct Producer {
    const AttentionPrefillArgs& args;
    const TensorMap &q_map, &k_map, &v_map;
    Storage& shared;
    typename Storage::QState q_state;
    typename Storage::WorkState work_state;
    typename Storage::KvState k_state, v_state;
    DynamicTileScheduler<Shape, kTileM, kTileN, kL2Swizzle> scheduler;

    __device__ __forceinline__ Producer(const AttentionPrefillArgs& args, const TensorMap& q_map,
                                        const TensorMap& k_map, const TensorMap& v_map, Storage& shared)
        : args(args), q_map(q_map), k_map(k_map), v_map(v_map), shared(shared), scheduler(args) {}

    __device__ __forceinline__ const WorkTile& next_work() {
      WorkTile& work = shared.work_tiles[work_state.index];
      work_state.advance();
      return scheduler.get_next_work(work);
    }
    __device__ __forceinline__ void load_q(const WorkTile& work) {
      Mbarrier* const full = &shared.barriers.q_full[q_state.index];
      mbarrier_arrive_expect_tx(full, Storage::kMatrices * kMatrixM);
#pragma unroll
      for (int matrix = 0; matrix < Storage::kMatrices; ++matrix)
        tma_load_3d(shared.q[q_state.index] + matrix * kMatrixM, q_map, matrix * 64, work.head,
                    work.sequence.first_token + work.first_row, full);
    }
    __device__ __forceinline__ void load_k(int tile, const KvLoader& loader) {
      mbarrier_wait(&shared.barriers.k_empty[k_state.index], k_state.phase ^ 1);
      loader.template load<Storage::kMatrices>(k_map, shared.k[k_state.index], tile,
                                               &shared.barriers.k_full[k_state.index]);
      k_state.advance();
    }
    __device__ __forceinline__ void load_v(int tile, const KvLoader& loader) {
      mbarrier_wait(&shared.barriers.v_empty[v_state.index], v_state.phase ^ 1);
      loader.template load<Storage::kMatricesV>(v_map, shared.v[v_state.index], tile,
                                                &shared.barriers.v_full[v_state.index]);
      v_state.advance();
    }
    __device__ __forceinline__ void run() {
      const WorkTile* last = nullptr;  // V of its first_tile, visited last, is still to be loaded
      for (const WorkTile* work = &next_work();; work = &next_work()) {
        mbarrier_wait(&shared.barriers.q_empty[q_state.index], q_state.phase ^ 1);
        const bool is_end = work->head == WorkTile::kEnd, has_keys = !is_end && work->tiles > 0;
        if (has_keys) {
          load_q(*work);
          load_k(work->last_tile(), loader_of(*work));
        } else {
          mbarrier_arrive(&shared.barriers.q_full[q_state.index]);
        }
        q_state.advance();
        if (!is_end && work->tiles < 2) scheduler.prefetch_next_work();
        if (last != nullptr) load_v(last->first_tile, loader_of(*last));
        last = has_keys ? work : nullptr;
        if (is_end) return;
        const KvLoader loader = loader_of(*work);
        for (int tile = work->last_tile() - 1; tile >= work->first_tile; --tile) {
          if (tile == work->first_tile) scheduler.prefetch_next_work();
          load_k(tile, loader);
          load_v(tile + 1, loader);
        }
      }
    }
    __device__ __forceinline__ KvLoader loader_of(const WorkTile& work) const {
      return KvLoader(args, work.sequence, work.batch, work.head);
    }
  };

  /// A consumer warpgroup: queries 64 * index to 64 * index + 63 of each work tile. A thread holds elements
  /// of two rows, lane / 4 and lane / 4 + 8 of its warp's 16.
  struct Consumer {
    const AttentionPrefillArgs& args;
    Storage& shared;
    const int index, lane, my_barrier, next_barrier;
    const unsigned q, k, v;
    Softmax softmax;
    typename Storage::QState q_state;
    typename Storage::WorkState work_state;
    typename Storage::KvState k_state, v_state;
    float o[kHeadDimV / 2];
    unsigned p[kTileN / 16][4];

    __device__ __forceinline__ Consumer(const AttentionPrefillArgs& args, Storage& shared, int index)
        : args(args),
          shared(shared),
          index(index),
          lane(threadIdx.x % 32),
          my_barrier(1 + index),
          next_barrier(1 + (index + 1) % kConsumers),
          q(shared_address(shared.q) + index * 64 * 128),
          k(shared_address(shared.k)),
          v(shared_address(shared.v)),
          softmax(args, lane, first_row() + lane / 4) {}

    /// The first row of this warp within the work tile.
    __device__ __forceinline__ int first_row() const { return index * 64 + threadIdx.x % 128 / 32 * 16; }

    __device__ __forceinline__ void release(Mbarrier* barrier) const {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(barrier);
    }
    __device__ __forceinline__ void wait_k() const {
      mbarrier_wait(&shared.barriers.k_full[k_state.index], k_state.phase);
    }
    __device__ __forceinline__ void wait_v() const {
      mbarrier_wait(&shared.barriers.v_full[v_state.index], v_state.phase);
    }
    __device__ __forceinline__ void release_k() {
      release(&shared.barriers.k_empty[k_state.index]);
      k_state.advance();
    }
    __device__ __forceinline__ void release_v() {
      release(&shared.barriers.v_empty[v_state.index]);
      v_state.advance();
    }

    /// Issues scores = q . k^T (SS wgmma).
    __device__ __forceinline__ void issue_qk() {
      const unsigned long long a = wgmma_descriptor_swizzle_128b(q + q_state.index *
                                                                         (Storage::kMatricesQ * kMatrixM)),
                               b = wgmma_descriptor_swizzle_128b(k + k_state.index *
                                                                         (Storage::kMatrices * kMatrixN));
      warpgroup_fence_operand(softmax.s);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kHeadDim / 16; ++kk)
        wgmma<T, kTileN>(softmax.s, wgmma_descriptor_advance(a, kk / 4 * kMatrixM + kk % 4 * 32),
                         wgmma_descriptor_advance(b, kk / 4 * kMatrixN + kk % 4 * 32), kk > 0);
      warpgroup_commit_batch();
    }
    /// Issues o += p . v (RS wgmma).
    __device__ __forceinline__ void issue_pv() {
      const unsigned long long b =
          wgmma_descriptor_swizzle_128b(v + v_state.index * (Storage::kMatricesV * kMatrixN), kMatrixN);
      warpgroup_fence_operand(o);
      warpgroup_fence_operand(p);
      warpgroup_arrive();
#pragma unroll
      for (int kk = 0; kk < kTileN / 16; ++kk)
        wgmma<T, kHeadDimV>(o, p[kk], wgmma_descriptor_advance(b, kk * 2048), true);
      warpgroup_commit_batch();
    }
    /// Issues the scores of a tile and P.V of the tile before it, and waits for the scores.
    __device__ __forceinline__ void issue_qk_and_pv() {
      if constexpr (kPingPong) named_barrier_sync(my_barrier, 256);
      issue_qk();
      wait_v();
      issue_pv();
      if constexpr (kPingPong) named_barrier_arrive(next_barrier, 256);
      warpgroup_wait<1>();
      release_k();
    }
    __device__ __forceinline__ void wait_pv() {
      warpgroup_wait<0>();
      warpgroup_fence_operand(o);
      warpgroup_fence_operand(p);
      release_v();
    }

    __device__ __forceinline__ void warpgroup_barrier() const {
      named_barrier_sync(1 + kConsumers + index, 128);
    }
    /// V rows beyond the last key are undefined, and 0 * NaN is NaN: zeroes them in the first tile visited.
    __device__ __forceinline__ void clear_v_past(int valid) {
      if (valid >= kTileN) return;
      wait_v();
      const int vectors = (kTileN - valid) * 8;
      for (int i = threadIdx.x % 128; i < Storage::kMatricesV * vectors; i += 128) {
        const int matrix = i / vectors, vector = i - matrix * vectors;
        *reinterpret_cast<uint4*>(shared.v[v_state.index] + matrix * kMatrixN + valid * 128 + vector * 16) =
            make_uint4(0, 0, 0, 0);
      }
      fence_proxy_async();
      warpgroup_barrier();
    }

    /// Waits for Q of the next work tile.
    __device__ __forceinline__ const WorkTile& next_work() {
      mbarrier_wait(&shared.barriers.q_full[q_state.index], q_state.phase);
      const WorkTile& work = shared.work_tiles[work_state.index];
      work_state.advance();
      return work;
    }

    /// After the softmax of the first K/V tile.
    __device__ __forceinline__ void begin_output(const WorkTile& work) {
#pragma unroll
      for (int i = 0; i < kHeadDimV / 2; ++i) o[i] = 0;
      softmax.convert_p(p);
      clear_v_past(work.sequence.kv_len - work.last_tile() * kTileN);
    }

    /// One further K/V tile; K has arrived. `more`: another tile follows.
    template <bool kMask>
    __device__ __forceinline__ void mainloop_step(bool more) {
      softmax.template next_tile<kMask>();
      issue_qk_and_pv();
      softmax.template online_softmax<kMask>();
      // Waiting for K here is a branch, which keeps the compiler from moving the softmax past
      // warpgroup_wait().
      if (more) wait_k();
      wait_pv();
      softmax.convert_p(p);  // before rescale_o(): the compiler schedules the step better
      softmax.rescale_o(o);
    }
    /// The K/V tile visited first, last_tile(), with no work tile before it.
    __device__ __forceinline__ void begin_work_tile(const WorkTile& work) {
      softmax.begin(work);
      wait_k();
      issue_qk();
      warpgroup_wait<0>();
      release_k();
      softmax.template online_softmax<true>();
      begin_output(work);
    }
    /// The first K/V tile of a work tile, overlapped with the end of the work tile before it.
    __device__ __forceinline__ void overlap_work_tiles(const WorkTile& last, const WorkTile& work) {
      const RowState last_rows = softmax.rows;
      softmax.begin(work);
      wait_k();
      issue_qk_and_pv();
      softmax.template online_softmax<true>();
      wait_pv();
      store(last, last_rows);
      begin_output(work);
    }
    /// All K/V tiles of a work tile but the first.
    __device__ __forceinline__ void mainloop(const WorkTile& work) {
      const int tiles = work.tiles, masked = work.masked;
      if (tiles > 1) wait_k();
      int tile = 1;
      for (; tile < masked; ++tile) mainloop_step<true>(tile + 1 < tiles);
      for (; tile < tiles; ++tile) mainloop_step<false>(tile + 1 < tiles);
      q_state.advance();
    }
    /// The end of a work tile, with no work tile after it.
    __device__ __forceinline__ void epilogue(const WorkTile& work) {
      wait_v();
      issue_pv();
      wait_pv();
      store(work, softmax.rows);
    }

    /// Stores this warp's 16 rows, 16 bytes per lane; vector_at(row, vector) returns them.
    template <class VectorAt>
    __device__ __forceinline__ void store_rows(const WorkTile& work, VectorAt vector_at) const {
      constexpr long long kStride = static_cast<long long>(Shape::kQHeads) * kHeadDimV;
      constexpr int kVectors = kHeadDimV / 8, kPerLane = kVectors / 2;
      const int first = first_row();
      T* const out = static_cast<T*>(args.out) +
                     (work.sequence.first_token + work.first_row + first) * kStride + work.head * kHeadDimV;
      uint4 x[kPerLane];
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        x[i] = vector_at((i * 32 + lane) / kVectors, (i * 32 + lane) % kVectors);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int row = (i * 32 + lane) / kVectors, vector = (i * 32 + lane) % kVectors;
        if (first + row < work.rows) *reinterpret_cast<uint4*>(out + row * kStride + vector * 8) = x[i];
      }
    }
    /// Normalizes and stores o. It goes through the rows of the Q tile of this warp, with the same swizzle.
    __device__ __forceinline__ void store(const WorkTile& work, const RowState& row_state) {
      float out_scale[2];
      softmax.finalize(work, row_state, out_scale);
      const int stage = q_state.index ^ 1, first = first_row();
      unsigned char* const rows = shared.q[stage] + first * 128;
      const auto at = [](int row, int vector) {
        return vector / 8 * kMatrixM + row * 128 + ((vector % 8 ^ row % 8) << 4);
      };
      warpgroup_barrier();  // no wgmma of this warpgroup reads Q any more
#pragma unroll
      for (int i = 0; i < kHeadDimV / 16; ++i) {
        unsigned x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          x[j] = pack2<T>(o[i * 8 + j * 2] * out_scale[j % 2], o[i * 8 + j * 2 + 1] * out_scale[j % 2]);
        stmatrix_x4(shared_address(rows) + at(lane % 16, i * 2 + lane / 16), x);
      }
      __syncwarp();
      store_rows(
          work, [&](int row, int vector) { return *reinterpret_cast<const uint4*>(rows + at(row, vector)); });
      fence_proxy_async();
      release(&shared.barriers.q_empty[stage]);
    }
    /// The output of a work tile that sees no keys.
    __device__ __forceinline__ void store_zeros(const WorkTile& work) {
      float out_scale[2];
      softmax.finalize(work, RowState{}, out_scale);
      store_rows(work, [](int, int) { return uint4{}; });
      release(&shared.barriers.q_empty[q_state.index]);
      q_state.advance();
    }

    __device__ __forceinline__ void run() {
      if (kPingPong && index == kConsumers - 1) named_barrier_arrive(next_barrier, 256);
      for (const WorkTile* last = nullptr;;) {
        const WorkTile& work = next_work();
        const bool is_end = work.head == WorkTile::kEnd, has_keys = !is_end && work.tiles > 0;
        if (last != nullptr && has_keys) {
          overlap_work_tiles(*last, work);
        } else {
          if (last != nullptr) epilogue(*last);
          if (is_end) break;
          if (!has_keys) {
            store_zeros(work);
            last = nullptr;
            continue;
          }
          begin_work_tile(work);
        }
        mainloop(work);
        last = &work;
      }
      if (kPingPong && index == 0) named_barrier_sync(my_barrier, 256);  // consumes the last arrival
    }
  };

  static __device__ __forceinline__ void run(const AttentionPrefillArgs& args, const TensorMap& q_map,
                                             const TensorMap& k_map, const TensorMap& v_map,
                                             unsigned char* memory) {
    Storage& shared = *reinterpret_cast<Storage*>(memory);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      shared.init_barriers();
      tma_prefetch_descriptor(q_map);
      tma_prefetch_descriptor(k_map);
      tma_prefetch_descriptor(v_map);
    }
    __syncthreads();
    pdl_wait();
    if (group == 0) {
      if constexpr (kConsumers > 1) warpgroup_reg_dealloc<kConsumers == 3 ? 32 : kManyRegisters ? 24 : 40>();
      if (threadIdx.x == 0) Producer(args, q_map, k_map, v_map, shared).run();
    } else {
      if constexpr (kConsumers > 1) warpgroup_reg_alloc<kConsumers == 3 ? 160 : kManyRegisters ? 240 : 232>();
      Consumer(args, shared, group - 1).run();
    }
  }
};

/// The workspace is the counter of DynamicTileScheduler.
template <class T, class Shape, int kConsumers, int kTileN, int kStages, bool kPingPong, int kL2Swizzle>
__global__ void __launch_bounds__(128 * (kConsumers + 1), 1)
    attention_prefill_flash_wgmma(typename Shape::Args args, const __grid_constant__ TensorMap q_map,
                                  const __grid_constant__ TensorMap k_map,
                                  const __grid_constant__ TensorMap v_map) {
  using Flash = FlashWgmma<T, Shape, kConsumers, kTileN, kStages, kPingPong, kL2Swizzle>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename Flash::Storage);
  extern __shared__ __align__(1024) unsigned char memory[];
  Flash::run(args, q_map, k_map, v_map, memory);
}

}  // namespace warptune
