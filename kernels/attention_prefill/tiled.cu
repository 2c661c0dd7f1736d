// Idea: online softmax on the CUDA cores, every dtype. A block takes kTileM queries of one head and walks
// over tiles of kTileN keys; q, then k, then v of a tile are in shared memory as fp32 (k and v in one place,
// one after the other). Threads form a grid of kBlock / 16 x 16; each owns a micro-tile of scores and of the
// output in registers. The 16 threads of a row reduce it by shuffles; probabilities go through shared memory.
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Elements of a shared row of kDim, against bank conflicts.
template <int kDim>
inline constexpr int kSharedStride = kDim % 4 == 0 ? kDim + 4 : kDim | 1;

/// kCount rows, the ith from `row_at(i)` on, into shared memory as fp32; rows from `valid` on become zeros.
template <class T, int kDim, int kCount, int kBlock, class RowAt>
__device__ __forceinline__ void load_rows(float* to, RowAt row_at, int valid) {
  constexpr int kLoad = kDim % kVec16<T> == 0 ? kVec16<T> : 1, kPieces = kDim / kLoad;
  for (int piece = threadIdx.x; piece < kCount * kPieces; piece += kBlock) {
    const int row = piece / kPieces, d = piece % kPieces * kLoad;
    Vec<float, kLoad> x = {};
    if (row < valid) x = to_float(load_vec<kLoad>(row_at(row) + d));
#pragma unroll
    for (int i = 0; i < kLoad; ++i) to[row * kSharedStride<kDim> + d + i] = x[i];
  }
}

template <class T, class S, int kTileM, int kTileN, int kBlock>
__global__ void __launch_bounds__(kBlock, 1) attention_prefill_tiled(AttentionPrefillArgs args) {
  constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV, kAcross = 16, kDown = kBlock / kAcross;
  constexpr int kRows = kTileM / kDown, kKeys = kTileN / kAcross, kElements = ceil_div(kHeadDimV, kAcross);
  constexpr int kVec = kHeadDim % 4 == 0 ? 4 : 1;  // elements per shared load of q and k
  constexpr int kStride = kSharedStride<kHeadDim>, kStrideV = kSharedStride<kHeadDimV>;
  static_assert(kTileM % kDown == 0 && kTileN % kAcross == 0);
  extern __shared__ __align__(16) float shared[];
  float* const q_tile = shared;                                        // [kTileM][kStride]
  float* const kv_tile = q_tile + kTileM * kStride;                    // [kTileN][kStride or kStrideV]
  float* const p_tile = kv_tile + kTileN * max_of(kStride, kStrideV);  // [kTileM][kTileN + 1]

  pdl_wait();
  const int tiles_m = gridDim.x / S::kQHeads, head = blockIdx.x / tiles_m;
  const int nth = blockIdx.x % tiles_m;
  const int first_row = (S::kCausal != 0 ? tiles_m - 1 - nth : nth) * kTileM;  // causal: the longest first
  const Sequence s = load_sequence(args, blockIdx.y);
  if constexpr (S::kLse) pad_lse<S, kBlock>(args, s, blockIdx.y, head, first_row, kTileM);
  if (first_row >= s.q_len) return;
  const int rows = min(kTileM, s.q_len - first_row);
  const KeyRows<T, S, kHeadDim> keys(args, args.k_cache, blockIdx.y, head);
  const KeyRows<T, S, kHeadDimV> values(args, args.v_cache, blockIdx.y, head);
  const ScoreBias<T, S> bias(args, s, head);
  const Dropout<S> dropout(args, blockIdx.y, head);
  const int visible_most = max(0, visible_keys<S::kCausal>(s, first_row + rows - 1));
  const T* q = static_cast<const T*>(args.q) + (s.first + first_row) * args.q_stride + head * kHeadDim;
  load_rows<T, kHeadDim, kTileM, kBlock>(
      q_tile, [&](int row) { return q + row * args.q_stride; }, rows);

  const int tx = threadIdx.x % kAcross, ty = threadIdx.x / kAcross;  // rows ty + i * kDown, keys tx + j * 16
  float out[kRows][kElements] = {};
  float row_max[kRows], row_sum[kRows];  // the same in all threads of a row
#pragma unroll
  for (int i = 0; i < kRows; ++i) row_max[i] = -WARPTUNE_INFINITY, row_sum[i] = 0;
  const float scale = args.scale * kLog2e;

  const int first_tile = first_visible<S>(args, s, first_row) / kTileN * kTileN;
  for (int first_key = first_tile; first_key < visible_most; first_key += kTileN) {
    __syncthreads();  // the v of the tile before is done with
    load_rows<T, kHeadDim, kTileN, kBlock>(
        kv_tile, [&](int row) { return keys.at(first_key + row); }, s.kv_len - first_key);
    __syncthreads();
    float score[kRows][kKeys] = {};
#pragma unroll 4
    for (int d = 0; d < kHeadDim; d += kVec) {
      Vec<float, kVec> k[kKeys];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) k[j] = load_vec<kVec>(kv_tile + (tx + j * kAcross) * kStride + d);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const auto q = load_vec<kVec>(q_tile + (ty + i * kDown) * kStride + d);
#pragma unroll
        for (int j = 0; j < kKeys; ++j)
#pragma unroll
          for (int e = 0; e < kVec; ++e) score[i][j] += q[e] * k[j][e];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = ty + i * kDown, query = first_row + row;
      const int first = first_visible<S>(args, s, query), seen = visible_keys<S::kCausal>(s, query);
      float most = row_max[i];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const int key = first_key + tx + j * kAcross;
        score[i][j] =
            key >= first && key < seen ? fmaf(score[i][j], scale, bias.at(query, key)) : -WARPTUNE_INFINITY;
        most = fmaxf(most, score[i][j]);
      }
      most = warp_reduce<Max, kAcross>(most);
      const float offset = most == -WARPTUNE_INFINITY ? 0.0f : most;  // a row that saw no key yet
      const float shrink = exp2_fast(row_max[i] - offset);
      row_max[i] = most;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const float p = exp2_fast(score[i][j] - offset);
        const int column = tx + j * kAcross;
        p_tile[row * (kTileN + 1) + column] = dropout.drops(query, first_key + column) ? 0.0f : p;
        sum += p;
      }
      row_sum[i] = row_sum[i] * shrink + warp_reduce<Sum, kAcross>(sum);
#pragma unroll
      for (int e = 0; e < kElements; ++e) out[i][e] *= shrink;
    }
    __syncthreads();  // k is done with, p is there
    load_rows<T, kHeadDimV, kTileN, kBlock>(
        kv_tile, [&](int row) { return values.at(first_key + row); }, s.kv_len - first_key);
    __syncthreads();
#pragma unroll 4
    for (int key = 0; key < kTileN; ++key) {
      float v[kElements];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int d = tx + e * kAcross;
        v[e] = d < kHeadDimV ? kv_tile[key * kStrideV + d] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float p = p_tile[(ty + i * kDown) * (kTileN + 1) + key];
#pragma unroll
        for (int e = 0; e < kElements; ++e) out[i][e] += p * v[e];
      }
    }
  }

  constexpr long long kOutStride = static_cast<long long>(S::kQHeads) * kHeadDimV;
  T* const to = static_cast<T*>(args.out) + (s.first + first_row) * kOutStride + head * kHeadDimV;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = ty + i * kDown;
    if (row >= rows) continue;
    const float factor = normalizer<S>(args, row_sum[i]);
    if constexpr (S::kLse)
      if (tx == 0) lse_rows<S>(args, blockIdx.y, head)[first_row + row] = lse_of(row_max[i], row_sum[i]);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int d = tx + e * kAcross;
      if (d < kHeadDimV) to[row * kOutStride + d] = from_float<T>(out[i][e] * factor);
    }
  }
}

}  // namespace warptune
