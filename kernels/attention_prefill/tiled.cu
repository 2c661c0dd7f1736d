// Flash attention on the CUDA cores: online softmax over K/V tiles, every dtype.
// Grid: one block per tile of kTileM queries of a head; it loops over tiles of kTileN keys.
// Threads: a (kBlock / 16) x 16 grid; each computes a register micro-tile of scores and of the output. The 16
//   threads of a row reduce it by warp shuffles.
// Shared memory, fp32, rows padded against bank conflicts: Q tile, one tile for K and then V, P tile.
// Sync: __syncthreads between the phases; loads are not overlapped.
// Wins: where tensor cores cannot run (fp32, odd head_dim), and for tiny problems.
// Source: FlashAttention (Dao et al., 2022).
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Elements from row to row in shared memory, padded against bank conflicts.
template <int kDim>
inline constexpr int kSharedStride = kDim % 4 == 0 ? kDim + 4 : kDim | 1;

/// Loads kCount rows into shared memory as fp32, element d of the ith from `at(i, d)`; rows from `valid` on
/// become zeros.
template <class T, int kDim, int kCount, int kBlock, class At>
__device__ __forceinline__ void load_rows(float* to, At at, int valid) {
  constexpr int kLoad = kDim % kVec16<T> == 0 ? kVec16<T> : 1, kVectors = kDim / kLoad;
  for (int vector = threadIdx.x; vector < kCount * kVectors; vector += kBlock) {
    const int row = vector / kVectors, d = vector % kVectors * kLoad;
    Vec<float, kLoad> x = {};
    if (row < valid) x = to_float(load_vec<kLoad>(at(row, d)));
#pragma unroll
    for (int i = 0; i < kLoad; ++i) to[row * kSharedStride<kDim> + d + i] = x[i];
  }
}

/// Micro-tiles: thread (ty, tx) has query rows ty + i * kThreadsM, and keys (or elements of V) tx + j * 16.
template <class T, class Shape, int kTileM, int kTileN, int kBlock>
struct TiledAttention {
  static constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV;
  static constexpr int kThreadsN = 16, kThreadsM = kBlock / kThreadsN;
  static constexpr int kRows = kTileM / kThreadsM, kKeys = kTileN / kThreadsN,
                       kElements = ceil_div(kHeadDimV, kThreadsN);
  static constexpr int kStride = kSharedStride<kHeadDim>, kStrideV = kSharedStride<kHeadDimV>;
  static_assert(kTileM % kThreadsM == 0 && kTileN % kThreadsN == 0);

  using Scores = float[kRows][kKeys];
  using Output = float[kRows][kElements];
  using RowState = float[kRows];  // a row maximum or sum, the same in all threads of the row

  /// S = Q.K^T
  static __device__ __forceinline__ void multiply_qk(Scores& score, const float* q_tile, const float* k_tile,
                                                     int tx, int ty) {
    constexpr int kVec = kHeadDim % 4 == 0 ? 4 : 1;  // elements per shared-memory load of q and k
#pragma unroll 4
    for (int d = 0; d < kHeadDim; d += kVec) {
      Vec<float, kVec> k[kKeys];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) k[j] = load_vec<kVec>(k_tile + (tx + j * kThreadsN) * kStride + d);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const auto q = load_vec<kVec>(q_tile + (ty + i * kThreadsM) * kStride + d);
#pragma unroll
        for (int j = 0; j < kKeys; ++j)
#pragma unroll
          for (int e = 0; e < kVec; ++e) score[i][j] += q[e] * k[j][e];
      }
    }
  }

  /// Bias, mask and online softmax of the scores of row i; the weights go to shared memory.
  static __device__ __forceinline__ void softmax_row(int i, Scores& score, Output& out, RowState& row_max,
                                                     RowState& row_sum, float* p_tile,
                                                     const AttentionPrefillArgs& args, const Sequence& s,
                                                     const HeadBias<T, Shape>& bias,
                                                     const Dropout<Shape>& dropout, float scale_log2,
                                                     int first_row, int first_key, int tx, int ty) {
    const int row = ty + i * kThreadsM, query = first_row + row;
    const int begin = key_begin<Shape>(args, s, query), end = key_end<Shape>(args, s, query);
    float tile_max = row_max[i];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int key = first_key + tx + j * kThreadsN;
      score[i][j] =
          key >= begin && key < end ? fmaf(score[i][j], scale_log2, bias.at(query, key)) : -WARPTUNE_INFINITY;
      tile_max = fmaxf(tile_max, score[i][j]);
    }
    tile_max = warp_reduce<Max, kThreadsN>(tile_max);
    const float offset = tile_max == -WARPTUNE_INFINITY ? 0.0f : tile_max;  // no visible key so far
    const float rescale = exp2_fast(row_max[i] - offset);
    row_max[i] = tile_max;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const float p = exp2_fast(score[i][j] - offset);
      const int column = tx + j * kThreadsN;
      p_tile[row * (kTileN + 1) + column] = dropout.drops(query, first_key + column) ? 0.0f : p;
      sum += p;
    }
    row_sum[i] = row_sum[i] * rescale + warp_reduce<Sum, kThreadsN>(sum);
#pragma unroll
    for (int e = 0; e < kElements; ++e) out[i][e] *= rescale;
  }

  /// O += P.V
  static __device__ __forceinline__ void multiply_pv(Output& out, const float* p_tile, const float* v_tile,
                                                     int tx, int ty) {
#pragma unroll 4
    for (int key = 0; key < kTileN; ++key) {
      float v[kElements];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int d = tx + e * kThreadsN;
        v[e] = d < kHeadDimV ? v_tile[key * kStrideV + d] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float p = p_tile[(ty + i * kThreadsM) * (kTileN + 1) + key];
#pragma unroll
        for (int e = 0; e < kElements; ++e) out[i][e] += p * v[e];
      }
    }
  }

  /// Normalizes and stores the output and lse of the first `rows` rows.
  static __device__ __forceinline__ void epilogue(const Output& out, const RowState& row_max,
                                                  const RowState& row_sum, const AttentionPrefillArgs& args,
                                                  const Sequence& s, int head, int first_row, int rows,
                                                  int tx, int ty) {
    constexpr long long kOutStride = static_cast<long long>(Shape::kQHeads) * kHeadDimV;
    T* const to = static_cast<T*>(args.out) + (s.first_token + first_row) * kOutStride + head * kHeadDimV;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = ty + i * kThreadsM;
      if (row >= rows) continue;
      const float scale = output_scale<Shape>(args, row_sum[i]);
      if constexpr (Shape::kLse)
        if (tx == 0)
          lse_row<Shape>(args, blockIdx.y, head)[first_row + row] = log_sum_exp(row_max[i], row_sum[i]);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int d = tx + e * kThreadsN;
        if (d < kHeadDimV) to[row * kOutStride + d] = from_float<T>(out[i][e] * scale);
      }
    }
  }
};

template <class T, class Shape, int kTileM, int kTileN, int kBlock>
__global__ void __launch_bounds__(kBlock, 1) attention_prefill_tiled(typename Shape::Args args) {
  using Attention = TiledAttention<T, Shape, kTileM, kTileN, kBlock>;
  constexpr int kThreadsN = Attention::kThreadsN, kRows = Attention::kRows;
  constexpr int kStride = Attention::kStride, kStrideV = Attention::kStrideV;
  constexpr int kHeadDim = Shape::kHeadDim, kHeadDimV = Shape::kHeadDimV;
  [[maybe_unused]] static constexpr int kSharedBytes =
      4 * (kTileM * kStride + kTileN * max_of(kStride, kStrideV) + kTileM * (kTileN + 1));
  extern __shared__ __align__(16) float shared[];
  float* const q_tile = shared;                                        // [kTileM][kStride]
  float* const kv_tile = q_tile + kTileM * kStride;                    // [kTileN][kStride or kStrideV]
  float* const p_tile = kv_tile + kTileN * max_of(kStride, kStrideV);  // [kTileM][kTileN + 1]

  // Load prologue
  pdl_wait();
  const int tiles_m = gridDim.x / Shape::kQHeads, head = blockIdx.x / tiles_m;
  const int first_row = longest_first<Shape>(blockIdx.x % tiles_m, tiles_m) * kTileM;
  const Sequence s = load_sequence(args, blockIdx.y);
  if constexpr (Shape::kLse) pad_lse<Shape, kBlock>(args, s, blockIdx.y, head, first_row, kTileM);
  if (first_row >= s.q_len) return;
  const int rows = min(kTileM, s.q_len - first_row);
  const KeyRows<T, Shape> keys(args, blockIdx.y, head);
  const ValueRows<T, Shape> values(args, blockIdx.y, head);
  const HeadBias<T, Shape> bias(args, s, blockIdx.y, head);
  const Dropout<Shape> dropout(args, blockIdx.y, head);
  const int max_key_end = max(0, key_end<Shape>(args, s, first_row + rows - 1));
  const T* q = static_cast<const T*>(args.q) + (s.first_token + first_row) * args.q_stride + head * kHeadDim;
  load_rows<T, kHeadDim, kTileM, kBlock>(
      q_tile, [&](int row, int d) { return q + row * args.q_stride + d; }, rows);

  const int tx = threadIdx.x % kThreadsN, ty = threadIdx.x / kThreadsN;
  typename Attention::Output out = {};
  typename Attention::RowState row_max, row_sum;
#pragma unroll
  for (int i = 0; i < kRows; ++i) row_max[i] = -WARPTUNE_INFINITY, row_sum[i] = 0;
  const float scale_log2 = args.scale * kLog2e;

  // Main loop
  const int begin = key_begin<Shape>(args, s, first_row) / kTileN * kTileN;
  for (int first_key = begin; first_key < max_key_end; first_key += kTileN) {
    __syncthreads();  // all threads are done with V of the last tile
    load_rows<T, kHeadDim, kTileN, kBlock>(
        kv_tile, [&](int row, int d) { return keys.at(first_key + row) + keys.offset(d); },
        s.kv_len - first_key);
    __syncthreads();
    typename Attention::Scores score = {};
    Attention::multiply_qk(score, q_tile, kv_tile, tx, ty);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      Attention::softmax_row(i, score, out, row_max, row_sum, p_tile, args, s, bias, dropout, scale_log2,
                             first_row, first_key, tx, ty);
    __syncthreads();  // P is complete, and all threads are done with K
    load_rows<T, kHeadDimV, kTileN, kBlock>(
        kv_tile, [&](int row, int d) { return values.at(first_key + row) + d; }, s.kv_len - first_key);
    __syncthreads();
    Attention::multiply_pv(out, p_tile, kv_tile, tx, ty);
  }

  Attention::epilogue(out, row_max, row_sum, args, s, head, first_row, rows, tx, ty);
}

}  // namespace warptune
