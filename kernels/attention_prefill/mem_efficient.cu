// Memory-efficient attention (xFormers, PyTorch): warps share score rows; mma.sync tensor cores, or fp32.
// Grid: one block per tile of kTileM queries of a head; it loops over tiles of kTileN keys.
//   kMinBlocksPerSm limits registers for an occupancy.
// Warps: kWarpsM x kWarpsN share a score tile. The warps of a row exchange its maximum, the weights P and
//   finally its sum through shared memory. 16-bit dtypes use m16n8k16; fp32 uses CUDA cores in the same
//   fragment layout (common/mma.cuh).
// Output: rescaled as row maxima rise; in registers, or in the workspace as fp32 (kOutInMemory), which
//   leaves registers for larger tiles, larger heads and more blocks per SM.
// Shared memory, XOR-swizzled (swizzled_tile.cuh): Q, K, V and P tiles; then one float per row and warp
//   column.
// Sync: cp.async groups and __syncthreads. V loads overlap Q.K^T, the next K overlaps P.V.
// Wins: fp32 with head_dim % 16 == 0.
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

/// Steps of the main loop and the epilogue, for a warp at (warp / kWarpsN, warp % kWarpsN) of the tile.
/// `tile_row` is the lane's first row in the tile.
template <class T, class Shape, int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kOutInMemory>
struct MemEfficient {
  static constexpr int kHeadDimV = Shape::kHeadDimV;
  static constexpr int kMt = kTileM / kWarpsM / 16, kNt = kTileN / kWarpsN / 8;  // score fragments of a warp
  static constexpr int kPairs = ceil_div(kHeadDimV / 16, kWarpsN);  // of output columns of a warp, 16 each
  static constexpr int kPairsInRegs = kOutInMemory ? min_of(kPairs, 2) : kPairs;
  static constexpr bool kFull = kHeadDimV % (16 * kWarpsN) == 0 && kPairs % kPairsInRegs == 0;
  static_assert(Shape::kHeadDim % 16 == 0 && kHeadDimV % 16 == 0);
  static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (16 * kWarpsN) == 0);
  using Weights = SwizzledTile<T, kTileN>;

  using Scores = float[kMt][kNt][4];
  using Output = float[kMt][2 * kPairsInRegs][4];
  using RowState = float[kMt][2];

  /// Writes this warp's row maxima of a score tile to shared memory.
  static __device__ __forceinline__ void write_row_max(float* row_exchange, const Scores& s, int tile_row,
                                                       int warp, int lane) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float x = fragment_row_max(s, mt, r);
        if (lane % 4 == 0) row_exchange[warp % kWarpsN * kTileM + tile_row + mt * 16 + r * 8] = x;
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
  static __device__ __forceinline__ void write_weights(T* weights, const Scores& s, int tile_row,
                                                       int warp_key, int lane) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt) {
        const int column = warp_key + nt * 8 + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          T* to = Weights::at(weights, tile_row + mt * 16 + r * 8, column / Weights::kVec) +
                  column % Weights::kVec;
          store_vec<2>(to, from_float<T>(Vec<float, 2>{{s[mt][nt][2 * r], s[mt][nt][2 * r + 1]}}));
        }
      }
  }

  /// Writes this warp's row sums to shared memory.
  static __device__ __forceinline__ void write_row_sum(float* row_exchange, const RowState& row_sum,
                                                       int tile_row, int warp, int lane) {
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[mt][r]);
        if (lane % 4 == 0) row_exchange[warp % kWarpsN * kTileM + tile_row + mt * 16 + r * 8] = sum;
      }
  }
};

template <class T, class Shape, int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kOutInMemory,
          int kMinBlocksPerSm>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kMinBlocksPerSm)
    attention_prefill_mem_efficient(AttentionPrefillArgs args) {
  constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV, kThreads = kWarpsM * kWarpsN * 32;
  using Steps = MemEfficient<T, Shape, kTileM, kTileN, kWarpsM, kWarpsN, kOutInMemory>;
  constexpr int kMt = Steps::kMt, kNt = Steps::kNt, kPairs = Steps::kPairs,
                kPairsInRegs = Steps::kPairsInRegs;
  using Tile = SwizzledTile<T, kHeadDim>;
  using ValueTile = SwizzledTile<T, kHeadDimV>;
  extern __shared__ __align__(128) unsigned char shared[];
  T* const q_tile = reinterpret_cast<T*>(shared);
  T* const k_tile = q_tile + kTileM * kHeadDim;
  T* const v_tile = k_tile + kTileN * kHeadDim;
  T* const weights = v_tile + kTileN * kHeadDimV;                                   // [kTileM][kTileN]
  float* const row_exchange = reinterpret_cast<float*>(weights + kTileM * kTileN);  // [kWarpsN][kTileM]

  pdl_wait();
  const int tiles_m = gridDim.x / Shape::kQHeads, head = blockIdx.x % Shape::kQHeads, b = blockIdx.y;
  const int nth = blockIdx.x / Shape::kQHeads;
  const int first_row = longest_first<Shape>(nth, tiles_m) * kTileM;
  const Sequence sequence = load_sequence(args, b);
  if constexpr (Shape::kLse) pad_lse<Shape, kThreads>(args, sequence, b, head, first_row, kTileM);
  if (first_row >= sequence.q_len) return;

  const int rows = min(kTileM, sequence.q_len - first_row);
  const KvRows<T, Shape, kHeadDim> keys(args, args.k_cache, b, head);
  const KvRows<T, Shape, kHeadDimV> values(args, args.v_cache, b, head);
  const HeadBias<T, Shape> bias(args, sequence, head);
  const Dropout<Shape> dropout(args, b, head);
  const int max_key_end = max(0, key_end<Shape>(sequence, first_row + rows - 1));
  const int min_key_end = max(0, key_end<Shape>(sequence, first_row));
  const int max_key_begin = key_begin<Shape>(args, sequence, first_row + rows - 1);
  const int begin = key_begin<Shape>(args, sequence, first_row) / kTileN * kTileN;

  const T* q =
      static_cast<const T*>(args.q) + (sequence.first_token + first_row) * args.q_stride + head * kHeadDim;
  Tile::template load<kTileM, kThreads>(
      q_tile, [&](int row) { return q + row * args.q_stride; }, rows);
  if (begin < max_key_end) Tile::template load_keys<kTileN, kThreads>(k_tile, keys, begin, sequence.kv_len);
  cp_async_commit();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsN * kMt * 16, warp_key = warp % kWarpsN * kNt * 8;
  const int first_pair = warp % kWarpsN * kPairs, pairs = min(kPairs, kHeadDimV / 16 - first_pair);
  const int tile_row = warp_row + lane / 4, my_row = first_row + tile_row;  // of mt = 0 and r = 0
  const float scale_log2 = args.scale * kLog2e;
  const float scale = Shape::kBias ? 1.0f : scale_log2;  // add_bias() has applied it
  typename Steps::Output o = {};
  typename Steps::RowState row_max, row_sum;  // of whole rows, in units of log2(e); of this lane
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) row_max[mt][r] = -WARPTUNE_INFINITY, row_sum[mt][r] = 0;

  // Two elements of the fp32 output in memory, in column pair `pair`.
  const auto out_in_memory = [&](int mt, int r, int pair, int nt) {
    const long long row = sequence.first_token + my_row + mt * 16 + r * 8;
    const int column = (first_pair + pair) * 16 + nt * 8 + lane % 4 * 2;
    return reinterpret_cast<float2*>(static_cast<float*>(args.workspace) +
                                     (row * Shape::kQHeads + head) * kHeadDimV + column);
  };

  for (int first_key = begin; first_key < max_key_end; first_key += kTileN) {
    cp_async_wait<0>();  // K of this tile
    __syncthreads();     // all warps are done with the last V
    ValueTile::template load_keys<kTileN, kThreads>(v_tile, values, first_key, sequence.kv_len);
    cp_async_commit();
    typename Steps::Scores s = {};
    multiply_rows<T, kHeadDim, kMt, kNt>(s, q_tile + warp_row * kHeadDim, k_tile + warp_key * kHeadDim);

    const int my_key = first_key + warp_key + lane % 4 * 2;
    if constexpr (Shape::kBias) add_bias(s, bias, scale_log2, my_row, my_key);
    if (first_key + kTileN > min_key_end || (Shape::kWindow && first_key < max_key_begin))
      apply_mask<Shape, 1>(s, args, sequence, my_row, my_key);
    Steps::write_row_max(row_exchange, s, tile_row, warp, lane);
    __syncthreads();  // all row maxima are written, and all warps are done with K
    if (first_key + kTileN < max_key_end)
      Tile::template load_keys<kTileN, kThreads>(k_tile, keys, first_key + kTileN, sequence.kv_len);
    cp_async_commit();

    typename Steps::RowState rescale;
    Steps::softmax_tile(s, row_max, row_sum, rescale, row_exchange, tile_row, scale);
    if constexpr (Shape::kDropout) apply_dropout(s, dropout, my_row, my_key);
    Steps::write_weights(weights, s, tile_row, warp_key, lane);
    cp_async_wait<1>();  // V of this tile
    __syncthreads();     // and all weights are written

    T* const my_weights = weights + warp_row * kTileN;
    if constexpr (kOutInMemory) {
#pragma unroll 1
      for (int pair = 0; pair < kPairs; pair += kPairsInRegs) {
        typename Steps::Output sum = {};
        if (first_key > begin)
          for_pairs<kMt, 2 * kPairsInRegs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
            const float2 x = *out_in_memory(mt, r, pair, nt);
            sum[mt][nt][2 * r] = x.x * rescale[mt][r];
            sum[mt][nt][2 * r + 1] = x.y * rescale[mt][r];
          });
        multiply_columns<T, kTileN, kHeadDimV, Steps::kFull, kMt, kPairsInRegs>(sum, my_weights, v_tile,
                                                                                first_pair + pair);
        for_pairs<kMt, 2 * kPairsInRegs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
          *out_in_memory(mt, r, pair, nt) = make_float2(sum[mt][nt][2 * r], sum[mt][nt][2 * r + 1]);
        });
      }
    } else {
      rescale_output<true>(o, rescale);
      multiply_columns<T, kTileN, kHeadDimV, Steps::kFull, kMt, kPairsInRegs>(o, my_weights, v_tile,
                                                                              first_pair);
    }
  }

  __syncthreads();
  Steps::write_row_sum(row_exchange, row_sum, tile_row, warp, lane);
  __syncthreads();
  typename Steps::RowState out_scale;
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarpsN; ++w) sum += row_exchange[w * kTileM + tile_row + mt * 16 + r * 8];
      out_scale[mt][r] = output_scale<Shape>(args, sum);
      if constexpr (Shape::kLse)
        if (warp % kWarpsN == 0 && lane % 4 == 0 && tile_row + mt * 16 + r * 8 < rows)
          lse_row<Shape>(args, b, head)[my_row + mt * 16 + r * 8] = log_sum_exp(row_max[mt][r], sum);
    }
  for (int pair = 0; pair < kPairs; pair += kPairsInRegs)
    for_pairs<kMt, 2 * kPairsInRegs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
      float2 x = make_float2(o[mt][nt][2 * r], o[mt][nt][2 * r + 1]);
      if (kOutInMemory && begin < max_key_end) x = *out_in_memory(mt, r, pair, nt);
      const long long row = sequence.first_token + my_row + mt * 16 + r * 8;
      T* const to = static_cast<T*>(args.out) + (row * Shape::kQHeads + head) * kHeadDimV +
                    (first_pair + pair) * 16 + nt * 8 + lane % 4 * 2;
      store_vec<2>(to, from_float<T>(Vec<float, 2>{{x.x * out_scale[mt][r], x.y * out_scale[mt][r]}}));
    });
}

}  // namespace warptune
