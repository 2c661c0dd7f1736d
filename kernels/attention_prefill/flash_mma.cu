// FlashAttention-2 on mma.sync tensor cores (sm_80), cp.async multistage K/V pipeline; optional split-KV.
// Grid: one block per tile of kTileM rows of a query head (kPackedHeads > 1: rows of all query heads of a KV
//   head, pack_gqa), sequence and split. It walks the K/V tiles of kTileN keys from the last visible one
//   down: the few tiles that need a mask come first, the rest runs without, except the last tiles of a
//   window.
// Warps: each owns 16 or 32 rows; mma m16n8k16 (flash_mma_multiply.cuh). Scores, P and output stay in
// registers: the accumulator
//   layout of Q.K^T is the A operand layout of P.V. Q fragments come from registers (kQInRegs) or ldmatrix.
// Shared memory: Q tile (later the output tile), XOR-swizzled, and kStages K and V tiles in kLayout
//   (swizzled_tile.cuh): the XOR swizzle, or, to measure bank conflicts, plain rows or groups of elements.
//   Any head_dim: rows are padded with zeros to a multiple of 16 (tile_dim.h), and only their columns stored.
// Sync: cp.async groups. One stage: two __syncthreads per tile; V loads overlap Q.K^T, the next K overlaps
//   softmax and P.V. More stages: one __syncthreads per tile, kStages - 1 tiles are in flight.
// Split-KV: kSplits blocks (blockIdx.z) divide the K/V tiles of a query tile; the unnormalized fp32
//   output, row maximum and row sum go to the workspace, and split_kv_combine.cu combines them.
// Wins: on sm_90 for few queries over a long cache, with splits and pack_gqa, and some GQA prompts of 256 to
//   511 queries at head_dim 64. Meant for sm_80, where nothing was measured.
// Source: FlashAttention-2 (Dao, 2023), Flash-Decoding; lazy rescaling from FlashAttention-4.
#include "kernels/attention_prefill/flash_mma_multiply.cuh"
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/attention_prefill/score_fragment.cuh"
#include "kernels/attention_prefill/split_kv.cuh"
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/attention_prefill/tile_dim.h"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// The K/V tiles that a block visits: step i is tile end - 1 - i. Steps [0, masked) need the causal mask or
/// the mask of the last tile, steps [window_masked, tiles) the window mask.
struct KvWalk {
  int end, tiles, masked, window_masked;
};

/// The walk of queries first_query to last_query, of split blockIdx.z.
template <class Shape, int kTileN, int kSplits>
__device__ __forceinline__ KvWalk kv_walk(const AttentionPrefillArgs& args, const Sequence& sequence,
                                          int first_query, int last_query) {
  KvWalk walk;
  const int max_key_end = max(0, key_end<Shape>(args, sequence, last_query));
  const int min_key_end = max(0, key_end<Shape>(args, sequence, first_query));
  int begin = key_begin<Shape>(args, sequence, first_query) / kTileN;
  walk.end = ceil_div(max_key_end, kTileN);
  if constexpr (kSplits > 1) {
    const int per_split = ceil_div(walk.end - begin, kSplits);
    begin = min(walk.end, begin + static_cast<int>(blockIdx.z) * per_split);
    walk.end = min(walk.end, begin + per_split);
  }
  walk.tiles = walk.end - begin;
  walk.masked = min(walk.tiles, walk.end - min_key_end / kTileN);
  walk.window_masked = walk.tiles;
  if constexpr (Shape::kWindow) {
    const int max_key_begin = key_begin<Shape>(args, sequence, last_query);
    walk.window_masked = max(walk.masked, min(walk.tiles, walk.end - ceil_div(max_key_begin, kTileN)));
  }
  return walk;
}

/// Online softmax of one tile: scores become weights in place. `rescale`: the factors of the output so far.
template <int kRowTiles, int kKeyTiles>
__device__ __forceinline__ void softmax_tile(float (&s)[kRowTiles][kKeyTiles][4],
                                             float (&row_max)[kRowTiles][2], float (&row_sum)[kRowTiles][2],
                                             float (&rescale)[kRowTiles][2], float scale) {
#pragma unroll
  for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float tile_max = fragment_row_max(s, mt, r);
      const float offset = update_row_max(row_max[mt][r], tile_max * scale, rescale[mt][r]);
      float sum[2] = {row_sum[mt][r] * rescale[mt][r], 0};
#pragma unroll
      for (int nt = 0; nt < kKeyTiles; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[mt][nt][2 * r + i];
          x = exp2_fast(fmaf(x, scale, -offset));
          sum[i] += x;
        }
      row_sum[mt][r] = sum[0] + sum[1];
    }
}

/// The tile of queries of a block. Row i is head `head` + i % kPackedHeads of query i / kPackedHeads.
struct QueryTile {
  Sequence sequence;
  int head, first_row, all_rows;  // all_rows: of the sequence
};

template <class T, class Shape, int kTileM, int kTileN, int kWarps, int kStages, bool kQInRegs,
          bool kRasterAlongHeads, int kSplits, int kPackedHeads, SharedLayout kLayout>
struct FlashMma {
  static constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV, kThreads = kWarps * 32;
  static constexpr int kDim = tile_dim(kHeadDim), kDimV = tile_dim(kHeadDimV);    // columns of tiles
  static constexpr int kRowTiles = kTileM / kWarps / 16, kKeyTiles = kTileN / 8;  // m16 and n8 of a warp
  static constexpr int kWarpRows = kRowTiles * 16, kQFragments = kQInRegs ? kDim / 16 : 1;
  static_assert(kTileM % (kWarps * 16) == 0 && kTileN % 16 == 0);
  using QueryRows = SwizzledTile<T, kDim>;
  using OutputRows = SwizzledTile<T, kDimV>;
  using KeyTile = SwizzledTile<T, kDim, kLayout, kTileN>;
  using ValueTile = SwizzledTile<T, kDimV, kLayout, kTileN>;

  using Scores = float[kRowTiles][kKeyTiles][4];
  using Output = float[kRowTiles][kDimV / 8][4];
  using RowState = float[kRowTiles][2];  // of rows lane / 4 and lane / 4 + 8 of each m16
  using QFragments = unsigned[kRowTiles][kQFragments][4];

  /// The tile of this block.
  static __device__ __forceinline__ QueryTile query_tile(const AttentionPrefillArgs& args) {
    constexpr int kHeads = Shape::kQHeads / kPackedHeads;
    const int tiles_m = gridDim.x / kHeads;
    const int head = (kRasterAlongHeads ? blockIdx.x % kHeads : blockIdx.x / tiles_m) * kPackedHeads;
    const int nth = kRasterAlongHeads ? blockIdx.x / kHeads : blockIdx.x % tiles_m;
    const int first_row = longest_first<Shape>(nth, tiles_m) * kTileM;
    const Sequence sequence = load_sequence(args, blockIdx.y);
    return {sequence, head, first_row, sequence.q_len * kPackedHeads};
  }

  /// +infinity in the lse entries of this block that are beyond the queries.
  static __device__ __forceinline__ void pad_lse_rows(const AttentionPrefillArgs& args,
                                                      const Sequence& sequence, int head, int first_row) {
    if constexpr (kPackedHeads == 1)
      if (blockIdx.z == 0) pad_lse<Shape, kThreads>(args, sequence, blockIdx.y, head, first_row, kTileM);
    if constexpr (kPackedHeads > 1)
      if (blockIdx.z == 0 && first_row == 0)
        for (int i = 0; i < kPackedHeads; ++i)
          pad_lse<Shape, kThreads>(args, sequence, blockIdx.y, head + i, 0, args.q_len);
  }

  /// cp.async loads of the K and V tiles of a step of the walk; all tiles but the first are full.
  struct KvLoader {
    const KeyRows<T, Shape>& keys;
    const ValueRows<T, Shape>& values;
    const KvWalk& walk;
    const int kv_len;
    T *const k_tiles, *const v_tiles;

    __device__ __forceinline__ void load_keys(int step, int stage, bool is_full) const {
      const int first_key = (walk.end - 1 - step) * kTileN;
      KeyTile::template load_keys<kTileN, kThreads, kHeadDim>(
          k_tiles + stage * kTileN * kDim, keys, first_key, is_full ? first_key + kTileN : kv_len);
    }
    __device__ __forceinline__ void load_values(int step, int stage, bool is_full) const {
      const int first_key = (walk.end - 1 - step) * kTileN;
      ValueTile::template load_keys<kTileN, kThreads, kHeadDimV>(
          v_tiles + stage * kTileN * kDimV, values, first_key, is_full ? first_key + kTileN : kv_len);
    }

    /// Begins a step of the walk: waits for its K tile (several stages: and its V tile) and issues the loads
    /// of V, or of the tiles kStages - 1 steps ahead.
    __device__ __forceinline__ void wait_keys(int step, bool is_full) const {
      if constexpr (kStages == 1) {
        cp_async_wait<0>();  // K of this tile
        __syncthreads();     // all warps are done with the last V
        load_values(step, 0, is_full);
        cp_async_commit();
      } else {
        cp_async_wait<kStages - 2>();  // K and V of this tile
        __syncthreads();               // all warps are done with the stage that is loaded next
        if (step + kStages - 1 < walk.tiles) {
          load_keys(step + kStages - 1, (step + kStages - 1) % kStages, true);
          load_values(step + kStages - 1, (step + kStages - 1) % kStages, true);
        }
        cp_async_commit();
      }
    }
    /// After Q.K^T. One stage: waits for the V tile and issues the loads of the next K tile.
    __device__ __forceinline__ void wait_values(int step) const {
      if constexpr (kStages > 1) return;
      cp_async_wait<0>();  // V of this tile
      __syncthreads();     // all warps are done with K
      if (step + 1 < walk.tiles) load_keys(step + 1, 0, true);
      cp_async_commit();
    }
  };

  /// One cp.async group for Q, then kStages - 1 groups of a K and a V tile (one stage: a K tile). Returns
  /// when Q is in shared memory.
  static __device__ __forceinline__ void load_prologue(const AttentionPrefillArgs& args,
                                                       const QueryTile& tile, int rows,
                                                       const KvLoader& loader, T* q_tile) {
    constexpr int kPrologue = kStages == 1 ? 1 : kStages - 1;
    const T* q =
        static_cast<const T*>(args.q) + tile.sequence.first_token * args.q_stride + tile.head * kHeadDim;
    QueryRows::template load<kTileM, kThreads, kHeadDim>(
        q_tile,
        [&](int row) {
          row += tile.first_row;
          return q + row / kPackedHeads * args.q_stride + row % kPackedHeads * kHeadDim;
        },
        rows);
    cp_async_commit();
    for (int stage = 0; stage < kPrologue; ++stage) {
      if (stage < loader.walk.tiles) {
        loader.load_keys(stage, stage, false);
        if constexpr (kStages > 1) loader.load_values(stage, stage, false);
      }
      cp_async_commit();
    }
    cp_async_wait<kPrologue>();
    __syncthreads();
  }

  /// The state of an online softmax before the first tile.
  static __device__ __forceinline__ void clear(RowState& row_max, RowState& row_sum) {
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) row_max[mt][r] = -WARPTUNE_INFINITY, row_sum[mt][r] = 0;
  }

  /// Copies this warp's rows of Q from shared memory to registers.
  static __device__ __forceinline__ void load_q_fragments(QFragments& q_fragments, T* q_rows, int lane) {
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int kk = 0; kk < kQFragments; ++kk)
        ldmatrix_x4(q_fragments[mt][kk], QueryRows::at(q_rows, mt * 16 + lane % 16, kk * 2 + lane / 16));
  }

  /// Bias, mask and online softmax of a tile of scores, which become weights after dropout; the output is
  /// rescaled.
  static __device__ __forceinline__ void softmax_step(const AttentionPrefillArgs& args, const QueryTile& tile,
                                                      const HeadBias<T, Shape>& bias,
                                                      const Dropout<Shape>& dropout, Scores& s, Output& o,
                                                      RowState& row_max, RowState& row_sum, float scale_log2,
                                                      int my_row, int my_key, bool is_masked) {
    const float scale = Shape::kBias ? 1.0f : scale_log2;  // add_bias() has applied it
    if constexpr (Shape::kBias) add_bias(s, bias, scale_log2, my_row, my_key);
    if (is_masked) apply_mask<Shape, kPackedHeads>(s, args, tile.sequence, my_row, my_key);
    RowState rescale;
    softmax_tile(s, row_max, row_sum, rescale, scale);
    rescale_output<(kRowTiles * kDimV >= 4 * kTileN)>(o, rescale);
    if constexpr (Shape::kDropout) apply_dropout(s, dropout, my_row, my_key);
  }

  /// Split-KV epilogue: unnormalized output, row maxima and row sums go to the workspace.
  static __device__ __forceinline__ void store_partials(const AttentionPrefillArgs& args,
                                                        const QueryTile& tile, const Output& o,
                                                        const RowState& row_max, const RowState& row_sum,
                                                        int my_row, int lane) {
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[mt][r]);
        const int row = my_row + mt * 16 + r * 8;
        if (row >= tile.all_rows) continue;
        const SplitKvWorkspace<Shape, kSplits> partials(args);
        const long long index = partials.row(blockIdx.z, tile.sequence.first_token + row / kPackedHeads,
                                             tile.head + row % kPackedHeads);
        if (lane % 4 == 0) partials.max_sum[index] = make_float2(row_max[mt][r], sum);
        float* const to = partials.out + index * kDimV + lane % 4 * 2;
#pragma unroll
        for (int dt = 0; dt < kDimV / 8; ++dt)
          *reinterpret_cast<float2*>(to + dt * 8) = make_float2(o[mt][dt][2 * r], o[mt][dt][2 * r + 1]);
      }
  }

  /// Epilogue without splits: normalizes the output into this warp's rows of the output tile, from where it
  /// is stored 16 bytes per lane, or as many as rows are aligned to.
  static __device__ __forceinline__ void store_output(const AttentionPrefillArgs& args, const QueryTile& tile,
                                                      const Output& o, const RowState& row_max,
                                                      const RowState& row_sum, T* out_rows, int my_row,
                                                      int warp, int lane) {
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[mt][r]);
        const int row = my_row + mt * 16 + r * 8;
        if constexpr (Shape::kLse)
          if (lane % 4 == 0 && row < tile.all_rows)
            lse_row<Shape>(args, blockIdx.y, tile.head + row % kPackedHeads)[row / kPackedHeads] =
                log_sum_exp(row_max[mt][r], sum);
        const float scale = output_scale<Shape>(args, sum);
#pragma unroll
        for (int dt = 0; dt < kDimV / 8; ++dt) {
          T* to = OutputRows::at(out_rows, mt * 16 + r * 8 + lane / 4, dt) + lane % 4 * 2;
          *reinterpret_cast<unsigned*>(to) = pack2<T>(o[mt][dt][2 * r] * scale, o[mt][dt][2 * r + 1] * scale);
        }
      }
    __syncwarp();
    constexpr long long kOutStride = static_cast<long long>(Shape::kQHeads) * kHeadDimV;
    T* const out = static_cast<T*>(args.out) + tile.sequence.first_token * kOutStride + tile.head * kHeadDimV;
    // A row is kStores stores of kWidth elements.
    constexpr int kWidth = vec_width<T>(kHeadDimV), kStores = kHeadDimV / kWidth, kPerVector = 8 / kWidth;
    for (int i = lane; i < kWarpRows * kStores; i += 32) {
      const int row = i / kStores, store = i % kStores;
      const int to = tile.first_row + warp * kWarpRows + row;
      if (to < tile.all_rows)
        store_vec<kWidth>(
            out + to / kPackedHeads * kOutStride + to % kPackedHeads * kHeadDimV + store * kWidth,
            load_vec<kWidth>(OutputRows::at(out_rows, row, store / kPerVector) +
                             store % kPerVector * kWidth));
    }
  }

  /// The Q tile becomes the output tile. A warp owns its rows where both tiles have the same row length.
  static __device__ __forceinline__ void epilogue(const AttentionPrefillArgs& args, const QueryTile& tile,
                                                  const Output& o, const RowState& row_max,
                                                  const RowState& row_sum, T* out_rows, int my_row, int warp,
                                                  int lane) {
    if constexpr (kDim == kDimV || kSplits > 1)
      __syncwarp();
    else
      __syncthreads();
    if constexpr (kSplits > 1)
      store_partials(args, tile, o, row_max, row_sum, my_row, lane);
    else
      store_output(args, tile, o, row_max, row_sum, out_rows, my_row, warp, lane);
  }
};

template <class T, class Shape, int kTileM, int kTileN, int kWarps, int kStages, bool kQInRegs,
          bool kRasterAlongHeads, int kSplits, int kPackedHeads, int kSharedLayout>
__global__ void __launch_bounds__(kWarps * 32, 1) attention_prefill_flash_mma(typename Shape::Args args) {
  constexpr auto kLayout = static_cast<SharedLayout>(kSharedLayout);
  using Flash = FlashMma<T, Shape, kTileM, kTileN, kWarps, kStages, kQInRegs, kRasterAlongHeads, kSplits,
                         kPackedHeads, kLayout>;
  constexpr int kDim = Flash::kDim, kDimV = Flash::kDimV, kWarpRows = Flash::kWarpRows;
  [[maybe_unused]] static constexpr int kSharedBytes =
      (kTileM * max_of(kDim, kDimV) + kStages * kTileN * (kDim + kDimV)) * sizeof(T);
  extern __shared__ __align__(128) unsigned char shared[];
  T* const q_tile = reinterpret_cast<T*>(shared);  // in the epilogue the output tile
  T* const k_tiles = q_tile + kTileM * max_of(kDim, kDimV);
  T* const v_tiles = k_tiles + kStages * kTileN * kDim;

  // Load prologue
  pdl_wait();
  const QueryTile tile = Flash::query_tile(args);
  const int head = tile.head, first_row = tile.first_row;
  if constexpr (Shape::kLse) Flash::pad_lse_rows(args, tile.sequence, head, first_row);
  if (first_row >= tile.all_rows) return;
  const int rows = min(kTileM, tile.all_rows - first_row);
  const KeyRows<T, Shape> keys(args, blockIdx.y, head);
  const ValueRows<T, Shape> values(args, blockIdx.y, head);
  const HeadBias<T, Shape> bias(args, tile.sequence, blockIdx.y, head);
  const Dropout<Shape> dropout(args, blockIdx.y, head);
  const auto walk = kv_walk<Shape, kTileN, kSplits>(args, tile.sequence, first_row / kPackedHeads,
                                                    (first_row + rows - 1) / kPackedHeads);
  const typename Flash::KvLoader loader{keys, values, walk, tile.sequence.kv_len, k_tiles, v_tiles};
  Flash::load_prologue(args, tile, rows, loader, q_tile);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* const q_rows = q_tile + warp * kWarpRows * kDim;  // of this warp
  typename Flash::QFragments q_fragments;
  if constexpr (kQInRegs) Flash::load_q_fragments(q_fragments, q_rows, lane);
  const unsigned q_address = shared_address(q_rows), k_address = shared_address(k_tiles),
                 v_address = shared_address(v_tiles);
  typename Flash::Output o = {};
  // Softmax state of rows lane / 4 and lane / 4 + 8: maxima in base-2 units, this lane's part of the sums.
  typename Flash::RowState row_max, row_sum;
  Flash::clear(row_max, row_sum);
  const float scale_log2 = args.scale * kLog2e;
  const int my_row = first_row + warp * kWarpRows + lane / 4;

  // Main loop
  const auto mainloop_step = [&](int step, bool is_masked) __attribute__((always_inline)) {
    const int stage = kStages == 1 ? 0 : step % kStages;
    typename Flash::Scores s;
    loader.wait_keys(step, !is_masked);
    multiply_keys<T, kDim, kTileN, kLayout, Flash::kRowTiles, kQInRegs, Flash::kQFragments>(
        s, q_fragments, q_address, k_address + stage * kTileN * Flash::KeyTile::kRowBytes);
    loader.wait_values(step);

    const int my_key = (walk.end - 1 - step) * kTileN + lane % 4 * 2;
    Flash::softmax_step(args, tile, bias, dropout, s, o, row_max, row_sum, scale_log2, my_row, my_key,
                        is_masked);
    multiply_values<T, kDimV, kTileN, kLayout, Flash::kRowTiles>(
        o, s, v_address + stage * kTileN * Flash::ValueTile::kRowBytes);
  };
  int step = 0;
  for (; step < walk.masked; ++step) mainloop_step(step, true);
  for (; step < walk.window_masked; ++step) mainloop_step(step, false);
  if constexpr (Shape::kWindow)
    for (; step < walk.tiles; ++step) mainloop_step(step, true);

  Flash::epilogue(args, tile, o, row_max, row_sum, q_tile + warp * kWarpRows * kDimV, my_row, warp, lane);
}

}  // namespace warptune
