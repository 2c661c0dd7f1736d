// Memory-efficient attention (xFormers, PyTorch): warps share score rows; mma.sync tensor cores, or fp32.
// Grid: one block per tile of kTileM queries of a head; it loops over tiles of kTileN keys.
//   kMinBlocksPerSm limits registers for an occupancy.
// Warps: kWarpsM x kWarpsN share a score tile. The warps of a row exchange its maximum, the weights P and
//   finally its sum through shared memory. 16-bit dtypes use m16n8k16; fp32 uses CUDA cores in the same
//   fragment layout (common/mma.cuh).
// Output: rescaled as row maxima rise; in registers, or in global memory as fp32 (workspace, kOutInMemory),
//   which leaves registers for larger tiles, larger heads and more blocks per SM.
// Shared memory, XOR-swizzled (swizzled_tile.cuh): Q, K, V and P tiles; then one float per row and warp
//   column.
// Sync: cp.async groups, three __syncthreads per tile: K arrived; row maxima written; P written and V
//   arrived. V loads overlap Q.K^T, the next K overlaps softmax and P.V.
// Wins: no recorded problem. Meant for fp32 prompts with head_dim % 16 == 0.
// Source: Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory", 2021; xFormers; lazy rescaling
//   from FlashAttention-4.
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/attention_prefill/score_fragment.cuh"
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// sum[mt][nt] += a . b^T for 16 * kMt rows of a and 8 * kNt rows of b, of kDepth elements, in swizzled
/// tiles.
template <class T, int kDepth, int kMt, int kNt>
__device__ __forceinline__ void multiply_rows(float (&sum)[kMt][kNt][4], T* a, T* b) {
  using Tile = SwizzledTile<T, kDepth>;
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 2) {
    const typename Tile::LdmatrixAddress from_a(shared_address(a), lane % 16, lane / 16),
        from_b(shared_address(b), lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int kk = 0; kk < kDepth / 16; ++kk) {
      unsigned x[kMt][4];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt) ldmatrix_x4(x[mt], from_a.at(kk * 2, mt * 16));
#pragma unroll
      for (int np = 0; np < kNt / 2; ++np) {
        unsigned y[4];  // rows 0-7: y[0], y[1]; rows 8-15: y[2], y[3]
        ldmatrix_x4(y, from_b.at(kk * 2, np * 16));
#pragma unroll
        for (int mt = 0; mt < kMt; ++mt) {
          mma_m16n8k16<T>(sum[mt][2 * np], x[mt], y[0], y[1]);
          mma_m16n8k16<T>(sum[mt][2 * np + 1], x[mt], y[2], y[3]);
        }
      }
    }
  } else {
#pragma unroll 2
    for (int vector = 0; vector < Tile::kVectors; ++vector) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r) x[mt][r] = load_vec<4>(Tile::at(a, mt * 16 + r * 8 + lane / 4, vector));
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vec<float, 4> y = load_vec<4>(Tile::at(b, nt * 8 + lane % 4 * 2 + i, vector));
#pragma unroll
          for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
              for (int e = 0; e < 4; ++e) sum[mt][nt][2 * r + i] += x[mt][r][e] * y[e];
        }
    }
  }
}

/// sum[mt][nt] += p . v for 16 * kMt rows of kTileN weights, and kPairs times 16 columns of v from column
/// pair `first` on. Unless kAll, columns beyond kDim are skipped.
template <class T, int kTileN, int kDim, bool kAll, int kMt, int kPairs>
__device__ __forceinline__ void multiply_columns(float (&sum)[kMt][2 * kPairs][4], T* p, T* v, int first) {
  using Weights = SwizzledTile<T, kTileN>;
  using Tile = SwizzledTile<T, kDim>;
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 2) {
    const typename Weights::LdmatrixAddress from_p(shared_address(p), lane % 16, lane / 16);
    const typename Tile::LdmatrixAddress from_v(shared_address(v), lane % 16, lane / 16);
#pragma unroll
    for (int kt = 0; kt < kTileN / 16; ++kt) {
      unsigned x[kMt][4];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt) ldmatrix_x4(x[mt], from_p.at(kt * 2, mt * 16));
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        if (!kAll && first + pair >= kDim / 16) break;
        unsigned y[4];  // columns 0-7: y[0], y[1]; columns 8-15: y[2], y[3]
        ldmatrix_x4_trans(y, from_v.at((first + pair) * 2, kt * 16));
#pragma unroll
        for (int mt = 0; mt < kMt; ++mt) {
          mma_m16n8k16<T>(sum[mt][2 * pair], x[mt], y[0], y[1]);
          mma_m16n8k16<T>(sum[mt][2 * pair + 1], x[mt], y[2], y[3]);
        }
      }
    }
  } else {
#pragma unroll 1
    for (int vector = 0; vector < Weights::kVectors; ++vector) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          x[mt][r] = load_vec<4>(Weights::at(p, mt * 16 + r * 8 + lane / 4, vector));
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int nt = 0; nt < 2 * kPairs; ++nt) {
          if (!kAll && first + nt / 2 >= kDim / 16) break;
          const int column = first * 16 + nt * 8 + lane % 4 * 2;
          const auto y = load_vec<2>(Tile::at(v, vector * 4 + e, column / 4) + column % 4);
#pragma unroll
          for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[mt][nt][i] += x[mt][i / 2][e] * y[i % 2];
        }
    }
  }
}

/// Calls f(mt, r, nt) for each pair of neighboring elements that a lane has in kMt x kNt fragments m16n8, of
/// the first `rows` rows (counted from the lane's first) and the first `columns` fragments.
template <int kMt, int kNt, class F>
__device__ __forceinline__ void for_pairs(int rows, int columns, F f) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
        if (mt * 16 + r * 8 < rows && nt < columns) f(mt, r, nt);
}

/// Steps of the kernel.
template <class T, class Shape, int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kOutInMemory>
struct MemEfficient {
  static constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV,
                       kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kMt = kTileM / kWarpsM / 16, kNt = kTileN / kWarpsN / 8;  // score fragments of a warp
  static constexpr int kPairs = ceil_div(kHeadDimV / 16, kWarpsN);  // of output columns of a warp, 16 each
  static constexpr int kPairsInRegs = kOutInMemory ? min_of(kPairs, 2) : kPairs;
  static constexpr bool kFull = kHeadDimV % (16 * kWarpsN) == 0 && kPairs % kPairsInRegs == 0;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0);
  static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (16 * kWarpsN) == 0);
  using Tile = SwizzledTile<T, kHeadDim>;
  using ValueTile = SwizzledTile<T, kHeadDimV>;
  using Weights = SwizzledTile<T, kTileN>;

  using Scores = float[kMt][kNt][4];
  using Output = float[kMt][2 * kPairsInRegs][4];
  using RowState = float[kMt][2];

  struct SharedTiles {
    T *const q, *const k, *const v, *const weights;  // weights: [kTileM][kTileN]
    float* const row_exchange;                       // [kWarpsN][kTileM]

    __device__ __forceinline__ explicit SharedTiles(unsigned char* shared)
        : q(reinterpret_cast<T*>(shared)),
          k(q + kTileM * kHeadDim),
          v(k + kTileN * kHeadDim),
          weights(v + kTileN * kHeadDimV),
          row_exchange(reinterpret_cast<float*>(weights + kTileM * kTileN)) {}
  };

  /// Where a warp works: it is warp (warp / kWarpsN, warp % kWarpsN) of the score tile, and has output column
  /// pairs first_pair to first_pair + pairs - 1.
  struct WarpTile {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / kWarpsN * kMt * 16, key = warp % kWarpsN * kNt * 8;
    const int first_pair = warp % kWarpsN * kPairs, pairs = min(kPairs, kHeadDimV / 16 - first_pair);
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
      return reinterpret_cast<float2*>(out + (row * Shape::kQHeads + head) * kHeadDimV + column);
    }
  };

  /// Issue the cp.async loads of a K or a V tile.
  static __device__ __forceinline__ void load_k(T* tile, const KeyRows<T, Shape>& keys, int first_key,
                                                int kv_len) {
    Tile::template load_keys<kTileN, kThreads>(tile, keys, first_key, kv_len);
  }
  static __device__ __forceinline__ void load_v(T* tile, const ValueRows<T, Shape>& values, int first_key,
                                                int kv_len) {
    ValueTile::template load_keys<kTileN, kThreads>(tile, values, first_key, kv_len);
  }

  /// Loads the Q tile and the first K tile, if there is one, as one cp.async group.
  static __device__ __forceinline__ void load_prologue(const AttentionPrefillArgs& args, T* q_tile, T* k_tile,
                                                       const KeyRows<T, Shape>& keys,
                                                       const Sequence& sequence, int head, int first_row,
                                                       int rows, const KeyRange& range) {
    const T* q =
        static_cast<const T*>(args.q) + (sequence.first_token + first_row) * args.q_stride + head * kHeadDim;
    Tile::template load<kTileM, kThreads>(
        q_tile, [&](int row) { return q + row * args.q_stride; }, rows);
    if (range.begin < range.end) load_k(k_tile, keys, range.begin, sequence.kv_len);
    cp_async_commit();
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
        for (int r = 0; r < 2; ++r) {
          T* to = Weights::at(weights, at.tile_row + mt * 16 + r * 8, column / Weights::kVec) +
                  column % Weights::kVec;
          store_vec<2>(to, from_float<T>(Vec<float, 2>{{s[mt][nt][2 * r], s[mt][nt][2 * r + 1]}}));
        }
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
      multiply_columns<T, kTileN, kHeadDimV, kFull, kMt, kPairsInRegs>(o, weights, v_tile, at.first_pair);
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
        multiply_columns<T, kTileN, kHeadDimV, kFull, kMt, kPairsInRegs>(sum, weights, v_tile,
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
        store_vec<2>(to, from_float<T>(Vec<float, 2>{{x.x * out_scale[mt][r], x.y * out_scale[mt][r]}}));
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
          int kMinBlocksPerSm>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kMinBlocksPerSm)
    attention_prefill_mem_efficient(typename Shape::Args args) {
  using Steps = MemEfficient<T, Shape, kTileM, kTileN, kWarpsM, kWarpsN, kOutInMemory>;
  constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV, kThreads = Steps::kThreads;
  extern __shared__ __align__(128) unsigned char shared[];
  const typename Steps::SharedTiles tiles(shared);

  // Load prologue
  pdl_wait();
  const int tiles_m = gridDim.x / Shape::kQHeads, head = blockIdx.x % Shape::kQHeads, b = blockIdx.y;
  const int nth = blockIdx.x / Shape::kQHeads;
  const int first_row = longest_first<Shape>(nth, tiles_m) * kTileM;
  const Sequence sequence = load_sequence(args, b);
  if constexpr (Shape::kLse) pad_lse<Shape, kThreads>(args, sequence, b, head, first_row, kTileM);
  if (first_row >= sequence.q_len) return;
  const int rows = min(kTileM, sequence.q_len - first_row);
  const KeyRows<T, Shape> keys(args, b, head);
  const ValueRows<T, Shape> values(args, b, head);
  const HeadBias<T, Shape> bias(args, sequence, b, head);
  const Dropout<Shape> dropout(args, b, head);
  const auto range = Steps::key_range(args, sequence, first_row, rows);
  Steps::load_prologue(args, tiles.q, tiles.k, keys, sequence, head, first_row, rows, range);

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
    cp_async_wait<0>();  // K of this tile
    __syncthreads();     // all warps are done with the last V
    Steps::load_v(tiles.v, values, first_key, sequence.kv_len);
    cp_async_commit();
    typename Steps::Scores s = {};
    multiply_rows<T, kHeadDim, Steps::kMt, Steps::kNt>(s, tiles.q + at.row * kHeadDim,
                                                       tiles.k + at.key * kHeadDim);
    const int my_key = first_key + at.key + at.lane % 4 * 2;
    if constexpr (Shape::kBias) add_bias(s, bias, scale_log2, my_row, my_key);
    if (range.is_masked(first_key)) apply_mask<Shape, 1>(s, args, sequence, my_row, my_key);
    Steps::write_row_max(tiles.row_exchange, s, at);
    __syncthreads();  // all row maxima are written, and all warps are done with K
    if (first_key + kTileN < range.end) Steps::load_k(tiles.k, keys, first_key + kTileN, sequence.kv_len);
    cp_async_commit();

    typename Steps::RowState rescale;
    Steps::softmax_tile(s, row_max, row_sum, rescale, tiles.row_exchange, at.tile_row, scale);
    if constexpr (Shape::kDropout) apply_dropout(s, dropout, my_row, my_key);
    Steps::write_weights(tiles.weights, s, at);
    cp_async_wait<1>();  // V of this tile
    __syncthreads();     // and all weights are written
    Steps::multiply_pv(o, tiles.weights + at.row * kTileN, tiles.v, rescale, out_in_memory,
                       first_key > range.begin, rows - at.tile_row, at);
  }

  Steps::epilogue(args, o, row_max, row_sum, tiles.row_exchange, out_in_memory, range, sequence, b, head,
                  my_row, rows, at);
}

}  // namespace warptune
