// Idea: PyTorch's memory-efficient attention (Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory",
// 2021; xFormers). A block takes kQueries x kKeys tiles of scores, shared by kWarpsM x kWarpsN warps: several
// warps hold pieces of a row, so its maximum, the weights and in the end the sum go through shared memory.
// The output is rescaled as maxima rise; it is accumulated in registers, or in memory as fp32, which leaves
// registers for larger tiles, heads and kBlocks blocks on a multiprocessor. V is fetched under Q.K, the next
// K under P.V. 16-bit dtypes use tensor cores; fp32 the CUDA cores, in the same layout of fragments
// (common/mma.cuh).
#include "kernels/attention_prefill/score_tile.cuh"
#include "kernels/attention_prefill/sequence.cuh"
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
    const typename Tile::Reader from_a(shared_address(a), lane % 16, lane / 16),
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
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r) x[mt][r] = load_vec<4>(Tile::at(a, mt * 16 + r * 8 + lane / 4, chunk));
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vec<float, 4> y = load_vec<4>(Tile::at(b, nt * 8 + lane % 4 * 2 + i, chunk));
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

/// sum[mt][nt] += p . v for 16 * kMt rows of kKeys weights, and of v the kPairs times 16 columns from pair
/// `first` on; unless kAll, as far as there are any.
template <class T, int kKeys, int kDim, bool kAll, int kMt, int kPairs>
__device__ __forceinline__ void multiply_columns(float (&sum)[kMt][2 * kPairs][4], T* p, T* v, int first) {
  using Weights = SwizzledTile<T, kKeys>;
  using Tile = SwizzledTile<T, kDim>;
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(T) == 2) {
    const typename Weights::Reader from_p(shared_address(p), lane % 16, lane / 16);
    const typename Tile::Reader from_v(shared_address(v), lane % 16, lane / 16);
#pragma unroll
    for (int kt = 0; kt < kKeys / 16; ++kt) {
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
    for (int chunk = 0; chunk < Weights::kChunks; ++chunk) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r) x[mt][r] = load_vec<4>(Weights::at(p, mt * 16 + r * 8 + lane / 4, chunk));
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int nt = 0; nt < 2 * kPairs; ++nt) {
          if (!kAll && first + nt / 2 >= kDim / 16) break;
          const int column = first * 16 + nt * 8 + lane % 4 * 2;
          const auto y = load_vec<2>(Tile::at(v, chunk * 4 + e, column / 4) + column % 4);
#pragma unroll
          for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[mt][nt][i] += x[mt][i / 2][e] * y[i % 2];
        }
    }
  }
}

/// Calls f(mt, r, nt) for every two neighbouring elements that a lane has of kMt x kNt fragments of 16 x 8:
/// of the first `rows` rows from the lane's own on, and of the first `columns` fragments.
template <int kMt, int kNt, class F>
__device__ __forceinline__ void for_pieces(int rows, int columns, F f) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
        if (mt * 16 + r * 8 < rows && nt < columns) f(mt, r, nt);
}

template <class T, class S, int kQueries, int kKeys, int kWarpsM, int kWarpsN, bool kInMemory, int kBlocks>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kBlocks)
    attention_prefill_mem_efficient(AttentionPrefillArgs args) {
  constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV, kThreads = kWarpsM * kWarpsN * 32;
  constexpr int kMt = kQueries / kWarpsM / 16, kNt = kKeys / kWarpsN / 8;  // of a warp's piece of scores
  constexpr int kPairs = ceil_div(kHeadDimV / 16, kWarpsN);  // 16 columns each, of its piece of the output
  constexpr int kHeldPairs = kInMemory ? min_of(kPairs, 2) : kPairs;
  constexpr bool kAll = kHeadDimV % (16 * kWarpsN) == 0 && kPairs % kHeldPairs == 0;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0);
  static_assert(kQueries % (16 * kWarpsM) == 0 && kKeys % (16 * kWarpsN) == 0);
  using Tile = SwizzledTile<T, kHeadDim>;
  using ValueTile = SwizzledTile<T, kHeadDimV>;
  using Weights = SwizzledTile<T, kKeys>;
  extern __shared__ __align__(128) unsigned char shared[];
  T* const q_tile = reinterpret_cast<T*>(shared);
  T* const k_tile = q_tile + kQueries * kHeadDim;
  T* const v_tile = k_tile + kKeys * kHeadDim;
  T* const weights = v_tile + kKeys * kHeadDimV;                               // [kQueries][kKeys]
  float* const of_row = reinterpret_cast<float*>(weights + kQueries * kKeys);  // [kWarpsN][kQueries]

  pdl_wait();
  const int tiles_m = gridDim.x / S::kQHeads, head = blockIdx.x % S::kQHeads, b = blockIdx.y;
  const int nth = blockIdx.x / S::kQHeads;
  const int first_row = (S::kCausal != 0 ? tiles_m - 1 - nth : nth) * kQueries;  // causal: the longest first
  const Sequence sequence = load_sequence(args, b);
  if constexpr (S::kLse) pad_lse<S, kThreads>(args, sequence, b, head, first_row, kQueries);
  if (first_row >= sequence.q_len) return;

  const int rows = min(kQueries, sequence.q_len - first_row);
  const KeyRows<T, S, kHeadDim> keys(args, args.k_cache, b, head);
  const KeyRows<T, S, kHeadDimV> values(args, args.v_cache, b, head);
  const ScoreBias<T, S> bias(args, sequence, head);
  const Dropout<S> dropout(args, b, head);
  const int visible_most = max(0, visible_keys<S::kCausal>(sequence, first_row + rows - 1));
  const int visible_least = max(0, visible_keys<S::kCausal>(sequence, first_row));
  const int hidden_most = first_visible<S>(args, sequence, first_row + rows - 1);  // by the window
  const int begin = first_visible<S>(args, sequence, first_row) / kKeys * kKeys;

  const T* q = static_cast<const T*>(args.q) + (sequence.first + first_row) * args.q_stride + head * kHeadDim;
  Tile::template fetch<kQueries, kThreads>(
      q_tile, [&](int row) { return q + row * args.q_stride; }, rows);
  if (begin < visible_most) Tile::template fetch_keys<kKeys, kThreads>(k_tile, keys, begin, sequence.kv_len);
  cp_async_commit();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsN * kMt * 16, warp_key = warp % kWarpsN * kNt * 8;
  const int first_pair = warp % kWarpsN * kPairs, pairs = min(kPairs, kHeadDimV / 16 - first_pair);
  const int tile_row = warp_row + lane / 4, my_row = first_row + tile_row;  // and 8 and 16 * mt more
  const float to_log2 = args.scale * kLog2e;
  const float scale = S::kBias ? 1.0f : to_log2;  // what is left of it where a bias comes in between
  float o[kMt][2 * kHeldPairs][4] = {};
  float row_max[kMt][2], row_sum[kMt][2];  // maxima of whole rows, in units of log2(e); sums of this lane
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) row_max[mt][r] = -WARPTUNE_INFINITY, row_sum[mt][r] = 0;

  // Two elements of the fp32 output in memory, from column 8 * nt of the pairs from `pair` on.
  const auto in_memory = [&](int mt, int r, int pair, int nt) {
    const long long row = sequence.first + my_row + mt * 16 + r * 8;
    const int column = (first_pair + pair) * 16 + nt * 8 + lane % 4 * 2;
    return reinterpret_cast<float2*>(static_cast<float*>(args.workspace) +
                                     (row * S::kQHeads + head) * kHeadDimV + column);
  };

  for (int first_key = begin; first_key < visible_most; first_key += kKeys) {
    cp_async_wait<0>();  // K of this tile
    __syncthreads();     // and nobody reads the last V any more
    ValueTile::template fetch_keys<kKeys, kThreads>(v_tile, values, first_key, sequence.kv_len);
    cp_async_commit();
    float s[kMt][kNt][4] = {};
    multiply_rows<T, kHeadDim, kMt, kNt>(s, q_tile + warp_row * kHeadDim, k_tile + warp_key * kHeadDim);

    const int my_key = first_key + warp_key + lane % 4 * 2;
    if constexpr (S::kBias) add_bias(s, bias, to_log2, my_row, my_key);
    if (first_key + kKeys > visible_least || (S::kWindow && first_key < hidden_most))
      hide_keys<S, 1>(s, args, sequence, my_row, my_key);
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = -WARPTUNE_INFINITY;
#pragma unroll
        for (int nt = 0; nt < kNt; ++nt) most = fmaxf(most, fmaxf(s[mt][nt][2 * r], s[mt][nt][2 * r + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        if (lane % 4 == 0) of_row[warp % kWarpsN * kQueries + tile_row + mt * 16 + r * 8] = most;
      }
    __syncthreads();  // the maxima are there, and nobody reads K any more
    if (first_key + kKeys < visible_most)
      Tile::template fetch_keys<kKeys, kThreads>(k_tile, keys, first_key + kKeys, sequence.kv_len);
    cp_async_commit();

    float shrink[kMt][2];
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = -WARPTUNE_INFINITY;
#pragma unroll
        for (int w = 0; w < kWarpsN; ++w)
          most = fmaxf(most, of_row[w * kQueries + tile_row + mt * 16 + r * 8]);
        const float offset = raise_max(row_max[mt][r], most * scale, shrink[mt][r]);
        row_sum[mt][r] *= shrink[mt][r];
#pragma unroll
        for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& x = s[mt][nt][2 * r + i];
            x = exp2_fast(fmaf(x, scale, -offset));
            row_sum[mt][r] += x;
          }
      }
    if constexpr (S::kDropout) drop_weights(s, dropout, my_row, my_key);
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt) {
        const int column = warp_key + nt * 8 + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          T* to = Weights::at(weights, tile_row + mt * 16 + r * 8, column / Weights::kPerChunk) +
                  column % Weights::kPerChunk;
          store_vec<2>(to, from_float<T>(Vec<float, 2>{{s[mt][nt][2 * r], s[mt][nt][2 * r + 1]}}));
        }
      }
    cp_async_wait<1>();  // V of this tile
    __syncthreads();     // and the weights are there

    T* const my_weights = weights + warp_row * kKeys;
    if constexpr (kInMemory) {
#pragma unroll 1
      for (int pair = 0; pair < kPairs; pair += kHeldPairs) {
        float part[kMt][2 * kHeldPairs][4] = {};
        if (first_key > begin)
          for_pieces<kMt, 2 * kHeldPairs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
            const float2 x = *in_memory(mt, r, pair, nt);
            part[mt][nt][2 * r] = x.x * shrink[mt][r];
            part[mt][nt][2 * r + 1] = x.y * shrink[mt][r];
          });
        multiply_columns<T, kKeys, kHeadDimV, kAll, kMt, kHeldPairs>(part, my_weights, v_tile,
                                                                     first_pair + pair);
        for_pieces<kMt, 2 * kHeldPairs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
          *in_memory(mt, r, pair, nt) = make_float2(part[mt][nt][2 * r], part[mt][nt][2 * r + 1]);
        });
      }
    } else {
      rescale<true>(o, shrink);
      multiply_columns<T, kKeys, kHeadDimV, kAll, kMt, kHeldPairs>(o, my_weights, v_tile, first_pair);
    }
  }

  // The sums of the warps of a row.
  __syncthreads();
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = row_sum[mt][r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == 0) of_row[warp % kWarpsN * kQueries + tile_row + mt * 16 + r * 8] = sum;
    }
  __syncthreads();
  float factor[kMt][2];
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarpsN; ++w) sum += of_row[w * kQueries + tile_row + mt * 16 + r * 8];
      factor[mt][r] = normalizer<S>(args, sum);
      if constexpr (S::kLse)
        if (warp % kWarpsN == 0 && lane % 4 == 0 && tile_row + mt * 16 + r * 8 < rows)
          lse_rows<S>(args, b, head)[my_row + mt * 16 + r * 8] = lse_of(row_max[mt][r], sum);
    }
  for (int pair = 0; pair < kPairs; pair += kHeldPairs)
    for_pieces<kMt, 2 * kHeldPairs>(rows - tile_row, 2 * (pairs - pair), [&](int mt, int r, int nt) {
      float2 x = make_float2(o[mt][nt][2 * r], o[mt][nt][2 * r + 1]);
      if (kInMemory && begin < visible_most) x = *in_memory(mt, r, pair, nt);
      const long long row = sequence.first + my_row + mt * 16 + r * 8;
      T* const to = static_cast<T*>(args.out) + (row * S::kQHeads + head) * kHeadDimV +
                    (first_pair + pair) * 16 + nt * 8 + lane % 4 * 2;
      store_vec<2>(to, from_float<T>(Vec<float, 2>{{x.x * factor[mt][r], x.y * factor[mt][r]}}));
    });
}

}  // namespace warptune
