#pragma once
// TMA multistage pipelines in shared memory: Q tiles, K tiles and V tiles, each with a full and an empty
// mbarrier per stage. One producer thread issues TMA loads, which arrive at the full barrier; each consumer
// warp arrives at the empty barrier.
#include "kernels/attention_prefill/tile_scheduler.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// Shared memory, aligned to 1024 bytes. A tile is stored as kMatrices matrices of all its rows x 64
/// elements (128 bytes), with the 128-byte swizzle of TMA. Q tiles also stage the output on its way to global
/// memory.
template <class Shape, int kConsumers, int kTileN, int kStages>
struct SharedStorage {
  static constexpr int kTileM = 64 * kConsumers, kQStages = 2;
  static constexpr int kMatrices = ceil_div(Shape::kHeadDim, 64),  // of a tile of Q or K
      kMatricesV = ceil_div(Shape::kHeadDimV, 64), kMatricesQ = max_of(kMatrices, kMatricesV);
  static constexpr int kMatrixM = kTileM * 128, kMatrixN = kTileN * 128;  // bytes of a matrix
  using QState = PipelineState<kQStages>;
  using WorkState = PipelineState<kQStages + 1>;
  using KvState = PipelineState<kStages>;

  unsigned char q[kQStages][kMatricesQ * kMatrixM], k[kStages][kMatrices * kMatrixN],
      v[kStages][kMatricesV * kMatrixN];
  struct Barriers {
    Mbarrier q_full[kQStages], q_empty[kQStages];
    Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  } barriers;
  WorkTile work_tiles[kQStages + 1];  // of the Q stages, and the next one

  /// Called by one thread before any other uses the barriers.
  __device__ __forceinline__ void init_barriers() {
    for (int i = 0; i < kQStages; ++i)
      mbarrier_init(&barriers.q_full[i], 1), mbarrier_init(&barriers.q_empty[i], 4 * kConsumers);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&barriers.k_full[i], 1), mbarrier_init(&barriers.v_full[i], 1);
      mbarrier_init(&barriers.k_empty[i], 4 * kConsumers),
          mbarrier_init(&barriers.v_empty[i], 4 * kConsumers);
    }
    mbarrier_init_fence();
  }
};

/// TMA loads of K (or V) tiles of a head: coordinates in a tensor map of the cache, of rows that hold all
/// heads (packed, bshd, qkv) or of pages.
template <class Shape, int kTileN>
struct KvTmaLoader {
  /// Rows of a TMA box: the largest power of two that divides the tile and the page. The tensor maps are in
  /// variants/attention_prefill/wgmma.cpp.
  static constexpr int kBoxRows = Shape::kPageSize > 0 ? min_of(Shape::kPageSize, kTileN & -kTileN) : kTileN;
  static constexpr int kMatrixN = kTileN * 128;  // bytes of 64 elements of a tile's rows
  /// The tensor map is [rows of all sequences, heads, elements], else [heads of all sequences, rows,
  /// elements].
  static constexpr bool kHeadsOfRow = Shape::kPacked || Shape::kStridedKv;

  int first = 0, kv_len, head;
  const int* pages = nullptr;

  __device__ __forceinline__ KvTmaLoader(const AttentionPrefillArgs& args, const Sequence& sequence, int b,
                                         int q_head)
      : kv_len(sequence.kv_len), head(q_head / (Shape::kQHeads / Shape::kKvHeads)) {
    if constexpr (Shape::kPageSize > 0)
      pages = args.block_table + static_cast<long long>(b) * args.max_pages;
    else if constexpr (Shape::kPacked)
      first = args.seqstart_k[b];
    else if constexpr (kHeadsOfRow)
      first = b * args.capacity;
    else
      head += b * Shape::kKvHeads;
  }
  /// Issues the loads of K/V tile `tile` as kMatrices swizzled matrices. Rows from kv_len on are undefined:
  /// pages that the sequence does not have are not read. Called by one thread.
  template <int kMatrices>
  __device__ __forceinline__ void load(const TensorMap& map, unsigned char* to, int tile,
                                       Mbarrier* full_barrier) const {
    if constexpr (Shape::kPageSize > 0) {
      const int boxes = min(kTileN / kBoxRows, ceil_div(kv_len - tile * kTileN, kBoxRows));
      mbarrier_arrive_expect_tx(full_barrier, boxes * kMatrices * kBoxRows * 128);
      for (int box = 0; box < boxes; ++box) {
        const int key = tile * kTileN + box * kBoxRows, page = pages[key / Shape::kPageSize];
#pragma unroll
        for (int matrix = 0; matrix < kMatrices; ++matrix)
          tma_load_3d(to + matrix * kMatrixN + box * kBoxRows * 128, map, matrix * 64, key % Shape::kPageSize,
                      page * Shape::kKvHeads + head, full_barrier);
      }
    } else {
      const int row = first + tile * kTileN;
      mbarrier_arrive_expect_tx(full_barrier, kMatrices * kMatrixN);
#pragma unroll
      for (int matrix = 0; matrix < kMatrices; ++matrix)
        tma_load_3d(to + matrix * kMatrixN, map, matrix * 64, kHeadsOfRow ? head : row,
                    kHeadsOfRow ? row : head, full_barrier);
    }
  }
};

}  // namespace warptune
