// Idea: online softmax on the CUDA cores, every dtype. A block takes kTileM queries of one head and walks
// over tiles of kTileN keys; q, then k, then v of a tile are in shared memory as fp32 (k and v in one place,
// one after the other). Threads form a grid of kBlock / 16 x 16; each owns a micro-tile of scores and of the
// output in registers. The 16 threads of a row reduce it by shuffles; probabilities go through shared memory.
#include "attention_prefill/sequence.cuh"
#include "common/exp2.cuh"
#include "common/pdl.cuh"
#include "common/reduce.cuh"
#include "common/vec.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kCausal, int kTileM, int kTileN, int kBlock>
__global__ void __launch_bounds__(kBlock, 1) attention_prefill_tiled(AttentionPrefillArgs args) {
  constexpr int kAcross = 16, kDown = kBlock / kAcross;
  constexpr int kRows = kTileM / kDown, kKeys = kTileN / kAcross, kElements = ceil_div(kHeadDim, kAcross);
  constexpr int kVec = kHeadDim % 4 == 0 ? 4 : 1;                   // elements per shared load of q and k
  constexpr int kStride = kVec == 4 ? kHeadDim + 4 : kHeadDim | 1;  // of shared rows, against bank conflicts
  constexpr int kLoad = kHeadDim % kVec16<T> == 0 ? kVec16<T> : 1;  // elements per global load
  constexpr int kPieces = kHeadDim / kLoad;
  static_assert(kTileM % kDown == 0 && kTileN % kAcross == 0);
  extern __shared__ __align__(16) float shared[];
  float* const q_tile = shared;                      // [kTileM][kStride]
  float* const kv_tile = q_tile + kTileM * kStride;  // [kTileN][kStride]
  float* const p_tile = kv_tile + kTileN * kStride;  // [kTileM][kTileN + 1]

  pdl_wait();
  const int tiles_m = gridDim.x / kQHeads, head = blockIdx.x / tiles_m;
  const int nth = blockIdx.x % tiles_m;
  const int first_row = (kCausal ? tiles_m - 1 - nth : nth) * kTileM;  // causal: the longest first
  const Sequence s = load_sequence(args, blockIdx.y);
  if (first_row >= s.q_len) return;
  const int rows = min(kTileM, s.q_len - first_row);
  constexpr long long kQStride = static_cast<long long>(kQHeads) * kHeadDim;
  const long long q_offset = (s.first + first_row) * kQStride + head * kHeadDim;
  const long long kv_offset = kv_offset_of<kQHeads, kKvHeads, kHeadDim>(args, blockIdx.y, head);
  const int visible_most = max(0, visible_keys<kCausal>(s, first_row + rows - 1));

  // Rows of `from` into shared memory as fp32; rows from `valid` on become zeros.
  const auto fetch = [&](float* to, const T* from, long long stride, int count, int valid) {
    for (int piece = threadIdx.x; piece < count * kPieces; piece += kBlock) {
      const int row = piece / kPieces, d = piece % kPieces * kLoad;
      Vec<float, kLoad> x = {};
      if (row < valid) x = to_float(load_vec<kLoad>(from + row * stride + d));
#pragma unroll
      for (int i = 0; i < kLoad; ++i) to[row * kStride + d + i] = x[i];
    }
  };
  fetch(q_tile, static_cast<const T*>(args.q) + q_offset, kQStride, kTileM, rows);

  const int tx = threadIdx.x % kAcross, ty = threadIdx.x / kAcross;  // rows ty + i * kDown, keys tx + j * 16
  float out[kRows][kElements] = {};
  float row_max[kRows], row_sum[kRows];  // the same in all threads of a row
#pragma unroll
  for (int i = 0; i < kRows; ++i) row_max[i] = -WARPTUNE_INFINITY, row_sum[i] = 0;
  const float scale = args.scale * kLog2e;

  for (int first_key = 0; first_key < visible_most; first_key += kTileN) {
    const long long tile_offset = kv_offset + static_cast<long long>(first_key) * kHeadDim;
    __syncthreads();  // the v of the tile before is done with
    fetch(kv_tile, static_cast<const T*>(args.k_cache) + tile_offset, kHeadDim, kTileN, s.kv_len - first_key);
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
      const int row = ty + i * kDown, seen = visible_keys<kCausal>(s, first_row + row);
      float most = row_max[i];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const bool visible = first_key + tx + j * kAcross < seen;
        score[i][j] = visible ? score[i][j] * scale : -WARPTUNE_INFINITY;
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
        p_tile[row * (kTileN + 1) + tx + j * kAcross] = p;
        sum += p;
      }
      row_sum[i] = row_sum[i] * shrink + warp_reduce<Sum, kAcross>(sum);
#pragma unroll
      for (int e = 0; e < kElements; ++e) out[i][e] *= shrink;
    }
    __syncthreads();  // k is done with, p is there
    fetch(kv_tile, static_cast<const T*>(args.v_cache) + tile_offset, kHeadDim, kTileN, s.kv_len - first_key);
    __syncthreads();
#pragma unroll 4
    for (int key = 0; key < kTileN; ++key) {
      float v[kElements];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int d = tx + e * kAcross;
        v[e] = d < kHeadDim ? kv_tile[key * kStride + d] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float p = p_tile[(ty + i * kDown) * (kTileN + 1) + key];
#pragma unroll
        for (int e = 0; e < kElements; ++e) out[i][e] += p * v[e];
      }
    }
  }

  T* const to = static_cast<T*>(args.out) + q_offset;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = ty + i * kDown;
    if (row >= rows) continue;
    const float inverse = row_sum[i] > 0 ? 1.0f / row_sum[i] : 0.0f;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int d = tx + e * kAcross;
      if (d < kHeadDim) to[row * kQStride + d] = from_float<T>(out[i][e] * inverse);
    }
  }
}

}  // namespace warptune
