// Memory-efficient attention (xFormers, PyTorch): warps share score rows; mma.sync tensor cores, or fp32 on
// CUDA cores.
// Grid: one block per tile of kTileM queries of a head; it loops over tiles of kTileN keys.
//   kMinBlocksPerSm limits registers for an occupancy.
// Warps: kWarpsM x kWarpsN share a score tile. The warps of a row exchange its maximum, the weights P and
//   finally its sum through shared memory. mem_efficient_multiply.cuh has the products: m16n8k16 of 16-bit
//   dtypes; fp32 on CUDA cores in the same fragment layout, or m16n8k8 of TF32 or 3xTF32 operands (kMath).
// Output: rescaled as row maxima rise; in registers, or in global memory as fp32 (workspace, kOutInMemory),
//   which leaves registers for larger tiles, larger heads and more blocks per SM.
// Shared memory, XOR-swizzled (swizzled_tile.cuh): Q tile, kStages K and V tiles, P tile; then one float per
//   row and warp column. Any head_dim: rows are padded with zeros to a multiple of 16 (tile_dim.h), and only
//   their columns stored.
// Sync: cp.async groups, three __syncthreads per tile: K arrived; row maxima written; P written. One stage: V
//   loads overlap Q.K^T, the next K overlaps softmax and P.V. More stages: K and V tiles arrive together, and
//   kStages - 1 are in flight.
// Wins: no recorded problem. Meant for fp32 prompts.
// Source: Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory", 2021; xFormers; lazy rescaling
//   from FlashAttention-4.
#include "kernels/attention_prefill/mem_efficient_multiply.cuh"
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/attention_prefill/score_fragment.cuh"
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/attention_prefill/tile_dim.h"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Steps of the kernel.
template <class T, class Shape, int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kOutInMemory,
          int kStages, Fp32Math kMath>
struct MemEfficient {
  static constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV,
                       kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kDim = tile_dim(kHeadDim), kDimV = tile_dim(kHeadDimV);   // columns of tiles
  static constexpr int kMt = kTileM / kWarpsM / 16, kNt = kTileN / kWarpsN / 8;  // score fragments of a warp
  static constexpr int kPairs = ceil_div(kDimV / 16, kWarpsN);  // of output columns of a warp, 16 each
  static constexpr int kPairsInRegs = kOutInMemory ? min_of(kPairs, 2) : kPairs;
  static constexpr bool kFull = kDimV % (16 * kWarpsN) == 0 && kPairs % kPairsInRegs == 0;
  static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (16 * kWarpsN) == 0);
  using Tile = SwizzledTile<T, kDim>;
  using ValueTile = SwizzledTile<T, kDimV>;

  using Scores = float[kMt][kNt][4];
  using Output = float[kMt][2 * kPairsInRegs][4];
  using RowState = float[kMt][2];

  struct SharedTiles {
    T *const q, *const k, *const v, *const weights;  // k, v: of all stages; weights: [kTileM][kTileN]
    float* const row_exchange;                       // [kWarpsN][kTileM]

    __device__ __forceinline__ explicit SharedTiles(unsigned char* shared)
        : q(reinterpret_cast<T*>(shared)),
          k(q + kTileM * kDim),
          v(k + kStages * kTileN * kDim),
          weights(v + kStages * kTileN * kDimV),
          row_exchange(reinterpret_cast<float*>(weights + kTileM * kTileN)) {}
  };

  /// Where a warp works: it is warp (warp / kWarpsN, warp % kWarpsN) of the score tile, and has output column
  /// pairs first_pair to first_pair + pairs - 1.
  struct WarpTile {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / kWarpsN * kMt * 16, key = warp % kWarpsN * kNt * 8;
    const int first_pair = warp % kWarpsN * kPairs, pairs = min(kPairs, kDimV / 16 - first_pair);
    const int tile_row = row + lane / 4;  // the lane's first row in the tile
  };

  /// The keys that the queries of a block see: a mask applies from min_end on, with a window up to max_begin.
  struct KeyRange {
    int begin, end, min_end, max_begin;

    __device__ __forceinline__ bool is_masked(int first_key) const {
      return first_key + kTileN > min_end || (Shape::kWindow && first_key < max_begin);
    }
  };
  static __device__ __forceinline__ KeyRange key_range(const AttentionPrefillArgs& args,
                                                       const Sequence& sequence, int first_row, int rows) {
    KeyRange range;
    range.end = max(0, key_end<Shape>(args, sequence, first_row + rows - 1));
    range.min_end = max(0, key_end<Shape>(args, sequence, first_row));
    range.max_begin = key_begin<Shape>(args, sequence, first_row + rows - 1);
    range.begin = key_begin<Shape>(args, sequence, first_row) / kTileN * kTileN;
    return range;
  }

  /// Two elements of row (mt, r) and column pair `pair` of the fp32 output in the workspace.
  struct OutInMemory {
    float* const out;
    const long long first_row;  // of this lane
    const int head, first_column;

    __device__ __forceinline__ OutInMemory(const AttentionPrefillArgs& args, const Sequence& sequence,
                                           int head, int my_row, const WarpTile& at)
        : out(static_cast<float*>(args.workspace)),
          first_row(sequence.first_token + my_row),
          head(head),
          first_column(at.first_pair * 16 + at.lane % 4 * 2) {}
    __device__ __forceinline__ float2* operator()(int mt, int r, int pair, int nt) const {
      const long long row = first_row + mt * 16 + r * 8;
      const int column = first_column + pair * 16 + nt * 8;
      return reinterpret_cast<float2*>(out + (row * Shape::kQHeads + head) * kDimV + column);
    }
  };

  /// cp.async loads of the K and V tiles from a key on, and the waits for them.
  struct KvLoader {
    const KeyRows<T, Shape>& keys;
    const ValueRows<T, Shape>& values;
    const KeyRange& range;
    const int kv_len;
    T *const k_tiles, *const v_tiles;

    /// The tiles of the stage of the keys from `first_key` on.
    __device__ __forceinline__ T* k_tile(int first_key) const {
      return kStages == 1 ? k_tiles : k_tiles + first_key / kTileN % kStages * (kTileN * kDim);
    }
    __device__ __forceinline__ T* v_tile(int first_key) const {
      return kStages == 1 ? v_tiles : v_tiles + first_key / kTileN % kStages * (kTileN * kDimV);
    }
    __device__ __forceinline__ void load_k(int first_key) const {
      Tile::template load_keys<kTileN, kThreads, kHeadDim>(k_tile(first_key), keys, first_key, kv_len);
    }
    __device__ __forceinline__ void load_v(int first_key) const {
      ValueTile::template load_keys<kTileN, kThreads, kHeadDimV>(v_tile(first_key), values, first_key,
                                                                 kv_len);
    }
    /// Loads a tile, if there is one, as a cp.async group. One stage: K only.
    __device__ __forceinline__ void load_tile(int first_key) const {
      if (first_key < range.end) {
        load_k(first_key);
        if constexpr (kStages > 1) load_v(first_key);
      }
      cp_async_commit();
    }
    /// Begins a tile: waits for its K (several stages: and its V), and issues the loads of V, or of the tile
    /// kStages - 1 further on.
    __device__ __forceinline__ void wait_k(int first_key) const {
      cp_async_wait<max_of(0, kStages - 2)>();
      __syncthreads();  // all warps are done with the last V
      if constexpr (kStages == 1) {
        load_v(first_key);
        cp_async_commit();
      } else {
        load_tile(first_key + (kStages - 1) * kTileN);
      }
    }
  };

  /// Loads the Q tile as part of the cp.async group of the first K tile.
  static __device__ __forceinline__ void load_q(const AttentionPrefillArgs& args, T* q_tile,
                                                const Sequence& sequence, int head, int first_row, int rows) {
    const T* q =
        static_cast<const T*>(args.q) + (sequence.first_token + first_row) * args.q_stride + head * kHeadDim;
    Tile::template load<kTileM, kThreads, kHeadDim>(
        q_tile, [&](int row) { return q + row * args.q_stride; }, rows);
  }

  /// The state of an online softmax before the first tile.
  static __device__ __forceinline__ void clear(RowState& row_max, RowState& row_sum) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) row_max[mt][r] = -WARPTUNE_INFINITY, row_sum[mt][r] = 0;
  }

  /// Writes this warp's row maxima of a score tile to shared memory.
  static __device__ __forceinline__ void write_row_max(float* row_exchange, const Scores& s,
                                                       const WarpTile& at) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float x = fragment_row_max(s, mt, r);
        if (at.lane % 4 == 0) row_exchange[at.warp % kWarpsN * kTileM + at.tile_row + mt * 16 + r * 8] = x;
      }
  }

  /// Online softmax of a score tile, whose row maxima all warps have written: scores become weights.
  static __device__ __forceinline__ void softmax_tile(Scores& s, RowState& row_max, RowState& row_sum,
                                                      RowState& rescale, const float* row_exchange,
                                                      int tile_row, float scale) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float tile_max = -WARPTUNE_INFINITY;
#pragma unroll
        for (int w = 0; w < kWarpsN; ++w)
          tile_max = fmaxf(tile_max, row_exchange[w * kTileM + tile_row + mt * 16 + r * 8]);
        const float offset = update_row_max(row_max[mt][r], tile_max * scale, rescale[mt][r]);
        row_sum[mt][r] *= rescale[mt][r];
#pragma unroll
        for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& x = s[mt][nt][2 * r + i];
            x = exp2_fast(fmaf(x, scale, -offset));
            row_sum[mt][r] += x;
          }
      }
  }

  /// Writes this warp's weights to the P tile.
  static __device__ __forceinline__ void write_weights(T* weights, const Scores& s, const WarpTile& at) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt) {
        const int column = at.key + nt * 8 + at.lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r)
          write_weight_pair<T, kMath, kTileN>(weights, at.tile_row + mt * 16 + r * 8, column,
                                              s[mt][nt][2 * r], s[mt][nt][2 * r + 1]);
      }
  }

  /// O = O * rescale + P.V. An output in memory is updated a few column pairs at a time; before the first
  /// tile there is none (has_output is false).
  static __device__ __forceinline__ void multiply_pv(Output& o, T* weights, T* v_tile,
                                                     const RowState& rescale,
                                                     const OutInMemory& out_in_memory, bool has_output,
                                                     int rows, const WarpTile& at) {
    if constexpr (!kOutInMemory) {
      rescale_output<true>(o, rescale);
      add_columns<T, kMath, kTileN, kDimV, kFull, kMt, kPairsInRegs>(o, weights, v_tile, at.first_pair);
    } else {
#pragma unroll 1
      for (int pair = 0; pair < kPairs; pair += kPairsInRegs) {
        Output sum = {};
        if (has_output)
          for_pairs<kMt, 2 * kPairsInRegs>(rows, 2 * (at.pairs - pair), [&](int mt, int r, int nt) {
            const float2 x = *out_in_memory(mt, r, pair, nt);
            sum[mt][nt][2 * r] = x.x * rescale[mt][r];
            sum[mt][nt][2 * r + 1] = x.y * rescale[mt][r];
          });
        add_columns<T, kMath, kTileN, kDimV, kFull, kMt, kPairsInRegs>(sum, weights, v_tile,
                                                                       at.first_pair + pair);
        for_pairs<kMt, 2 * kPairsInRegs>(rows, 2 * (at.pairs - pair), [&](int mt, int r, int nt) {
          *out_in_memory(mt, r, pair, nt) = make_float2(sum[mt][nt][2 * r], sum[mt][nt][2 * r + 1]);
        });
      }
    }
  }

  /// Writes this warp's row sums to shared memory.
  static __device__ __forceinline__ void write_row_sum(float* row_exchange, const RowState& row_sum,
                                                       const WarpTile& at) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[mt][r]);
        if (at.lane % 4 == 0) row_exchange[at.warp % kWarpsN * kTileM + at.tile_row + mt * 16 + r * 8] = sum;
      }
  }

  /// The scale of the output from the row sums, which all warps have written; stores lse.
  static __device__ __forceinline__ void finish_rows(const AttentionPrefillArgs& args, RowState& out_scale,
                                                     const RowState& row_max, const float* row_exchange,
                                                     int b, int head, int my_row, int rows,
                                                     const WarpTile& at) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < kWarpsN; ++w) sum += row_exchange[w * kTileM + at.tile_row + mt * 16 + r * 8];
        out_scale[mt][r] = output_scale<Shape>(args, sum);
        if constexpr (Shape::kLse)
          if (at.warp % kWarpsN == 0 && at.lane % 4 == 0 && at.tile_row + mt * 16 + r * 8 < rows)
            lse_row<Shape>(args, b, head)[my_row + mt * 16 + r * 8] = log_sum_exp(row_max[mt][r], sum);
      }
  }

  /// Stores two columns of the output, `rest` columns before the end of a row.
  static __device__ __forceinline__ void store_columns(T* to, int rest, const Vec<T, 2>& x) {
    if constexpr (kHeadDimV == kDimV) {
      store_vec<2>(to, x);
    } else if constexpr (kHeadDimV % 2 == 0) {
      if (rest > 0) store_vec<2>(to, x);
    } else {
      if (rest > 0) to[0] = x[0];
      if (rest > 1) to[1] = x[1];
    }
  }

  /// Normalizes the output, which is in registers or in memory, and stores it as T.
  static __device__ __forceinline__ void store_output(const AttentionPrefillArgs& args, const Output& o,
                                                      const RowState& out_scale,
                                                      const OutInMemory& out_in_memory, bool has_output,
                                                      const Sequence& sequence, int my_row, int head,
                                                      int rows, const WarpTile& at) {
    for (int pair = 0; pair < kPairs; pair += kPairsInRegs)
      for_pairs<kMt, 2 * kPairsInRegs>(rows, 2 * (at.pairs - pair), [&](int mt, int r, int nt) {
        float2 x = make_float2(o[mt][nt][2 * r], o[mt][nt][2 * r + 1]);
        if (kOutInMemory && has_output) x = *out_in_memory(mt, r, pair, nt);
        const long long row = sequence.first_token + my_row + mt * 16 + r * 8;
        T* const to = static_cast<T*>(args.out) + (row * Shape::kQHeads + head) * kHeadDimV +
                      (at.first_pair + pair) * 16 + nt * 8 + at.lane % 4 * 2;
        store_columns(to, kHeadDimV - ((at.first_pair + pair) * 16 + nt * 8 + at.lane % 4 * 2),
                      from_float<T>(Vec<float, 2>{{x.x * out_scale[mt][r], x.y * out_scale[mt][r]}}));
      });
  }

  /// Exchanges the row sums of the warps, normalizes and stores.
  static __device__ __forceinline__ void epilogue(const AttentionPrefillArgs& args, const Output& o,
                                                  const RowState& row_max, const RowState& row_sum,
                                                  float* row_exchange, const OutInMemory& out_in_memory,
                                                  const KeyRange& range, const Sequence& sequence, int b,
                                                  int head, int my_row, int rows, const WarpTile& at) {
    __syncthreads();
    write_row_sum(row_exchange, row_sum, at);
    __syncthreads();
    RowState out_scale;
    finish_rows(args, out_scale, row_max, row_exchange, b, head, my_row, rows, at);
    store_output(args, o, out_scale, out_in_memory, range.begin < range.end, sequence, my_row, head,
                 rows - at.tile_row, at);
  }
};

template <class T, class Shape, int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kOutInMemory,
          int kMinBlocksPerSm, int kStages, int kFp32Math>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kMinBlocksPerSm)
    attention_prefill_mem_efficient(typename Shape::Args args) {
  constexpr auto kMath = static_cast<Fp32Math>(kFp32Math);
  using Steps = MemEfficient<T, Shape, kTileM, kTileN, kWarpsM, kWarpsN, kOutInMemory, kStages, kMath>;
  constexpr int kDim = Steps::kDim;
  [[maybe_unused]] static constexpr int kSharedBytes =
      (kTileM * kDim + kStages * kTileN * (kDim + Steps::kDimV) + kTileM * kTileN) * sizeof(T) +
      4 * kWarpsN * kTileM;
  extern __shared__ __align__(128) unsigned char shared[];
  const typename Steps::SharedTiles tiles(shared);

  // Load prologue
  pdl_wait();
  const int tiles_m = gridDim.x / Shape::kQHeads, head = blockIdx.x % Shape::kQHeads, b = blockIdx.y;
  const int nth = blockIdx.x / Shape::kQHeads;
  const int first_row = longest_first<Shape>(nth, tiles_m) * kTileM;
  const Sequence sequence = load_sequence(args, b);
  if constexpr (Shape::kLse) pad_lse<Shape, Steps::kThreads>(args, sequence, b, head, first_row, kTileM);
  if (first_row >= sequence.q_len) return;
  const int rows = min(kTileM, sequence.q_len - first_row);
  const KeyRows<T, Shape> keys(args, b, head);
  const ValueRows<T, Shape> values(args, b, head);
  const HeadBias<T, Shape> bias(args, sequence, b, head);
  const Dropout<Shape> dropout(args, b, head);
  const auto range = Steps::key_range(args, sequence, first_row, rows);
  const typename Steps::KvLoader loader{keys, values, range, sequence.kv_len, tiles.k, tiles.v};
  Steps::load_q(args, tiles.q, sequence, head, first_row, rows);
#pragma unroll
  for (int stage = 0; stage < max_of(1, kStages - 1); ++stage) loader.load_tile(range.begin + stage * kTileN);

  // Main loop
  const typename Steps::WarpTile at;
  const int my_row = first_row + at.tile_row;  // of mt = 0 and r = 0
  const float scale_log2 = args.scale * kLog2e;
  const float scale = Shape::kBias ? 1.0f : scale_log2;  // add_bias() has applied it
  typename Steps::Output o = {};
  typename Steps::RowState row_max, row_sum;  // of whole rows, in base-2 units; this lane's part
  Steps::clear(row_max, row_sum);
  const typename Steps::OutInMemory out_in_memory(args, sequence, head, my_row, at);
  for (int first_key = range.begin; first_key < range.end; first_key += kTileN) {
    loader.wait_k(first_key);
    typename Steps::Scores s = {};
    multiply_rows<T, kMath, kDim, Steps::kMt, Steps::kNt>(s, tiles.q + at.row * kDim,
                                                          loader.k_tile(first_key) + at.key * kDim);
    const int my_key = first_key + at.key + at.lane % 4 * 2;
    if constexpr (Shape::kBias) add_bias(s, bias, scale_log2, my_row, my_key);
    if (range.is_masked(first_key)) apply_mask<Shape, 1>(s, args, sequence, my_row, my_key);
    Steps::write_row_max(tiles.row_exchange, s, at);
    __syncthreads();  // all row maxima are written, and all warps are done with K
    if constexpr (kStages == 1) {
      if (first_key + kTileN < range.end) loader.load_k(first_key + kTileN);
      cp_async_commit();
    }

    typename Steps::RowState rescale;
    Steps::softmax_tile(s, row_max, row_sum, rescale, tiles.row_exchange, at.tile_row, scale);
    if constexpr (Shape::kDropout) apply_dropout(s, dropout, my_row, my_key);
    Steps::write_weights(tiles.weights, s, at);
    if constexpr (kStages == 1) cp_async_wait<1>();  // V of this tile
    __syncthreads();                                 // and all weights are written
    Steps::multiply_pv(o, tiles.weights + at.row * kTileN, loader.v_tile(first_key), rescale, out_in_memory,
                       first_key > range.begin, rows - at.tile_row, at);
  }

  Steps::epilogue(args, o, row_max, row_sum, tiles.row_exchange, out_in_memory, range, sequence, b, head,
                  my_row, rows, at);
}

}  // namespace warptune
