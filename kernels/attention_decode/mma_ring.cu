// Idea: split_ring for groups of query heads: the products go to the tensor cores, so that up to 16 heads of
// a group share every byte of K and V at the price of one. Chunks of keys come by tensor copies with the
// 128-byte swizzle (sm_90), so that ldmatrix meets no bank conflict. Early copies and append are those of
// split_ring.cu, the merge is ring_merge.cuh.
//
// S = Q.K^T has the heads as rows (m16) and keys as columns (n8); O^T = V^T.P^T has elements of head_dim as
// rows and 8 heads as columns, so that the scores of a lane become its B fragment of P^T where they are.
//
// Codes of 8 bits become fp16 in registers (common/codes.cuh). A lane gets four neighbouring codes of a K
// row: the order of the summed index is free in a product, and q is read in the same one. Of V it gets pairs
// of codes of two keys: even and odd elements are the two halves of a row tile. Scales of rows come beside
// the chunk. Fragment layouts: common/mma.cuh.
#include "attention_decode/ring_append.cuh"
#include "attention_decode/ring_merge.cuh"
#include "common/codes.cuh"
#include "common/load_matrix.cuh"
#include "common/mma.cuh"
#include "common/pdl.cuh"
#include "common/tensor_copy.cuh"

namespace warptune {

/// kKeys rows of K or V in shared memory: one box of lines of 128 bytes, kLines to a row, as they lie in
/// global memory (whole rows: half rows at a time cost 5 % of the bandwidth); 16-byte pieces swizzled by
/// line.
template <class P, int kKeys>
struct RingTile {
  using C = typename P::C;
  static constexpr int kRowBytes = P::kHeadDim * static_cast<int>(sizeof(C)), kLines = kRowBytes / 128;
  static constexpr int kBytes = kKeys * kRowBytes;
  static_assert(kRowBytes % 128 == 0 && kKeys * kLines <= 256);

  static __device__ __forceinline__ int offset(int row, int piece) {
    const int line = row * kLines + piece / 8;
    return line * 128 + ((piece % 8 ^ line % 8) << 4);
  }
  /// This lane's row for an ldmatrix of 16 keys, of `piece` and the next.
  static __device__ __forceinline__ int lane_offset(int piece) {
    const int lane = threadIdx.x % 32;
    return offset(lane / 16 * 8 + lane % 8, piece + lane / 8 % 2);
  }
};

template <class P, int kWarps, int kKeys, int kStages, int kSplits, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32)
    attention_decode_mma_ring(AttentionDecodeArgs args, const __grid_constant__ TensorMap k_map,
                              const __grid_constant__ TensorMap v_map) {
  using T = typename P::T;
  using C = typename P::C;
  using F = typename TypeAt<P::kQuantized, T, fp16>::Type;  // of the products
  using Tile = RingTile<P, kKeys>;
  constexpr int kHeadDim = P::kHeadDim, kGroup = P::kGroup, kHalves = ceil_div(kGroup, 8);
  constexpr int kSteps = kHeadDim / 16, kPairs = kKeys / 16, kBlock = kWarps * 32;
  constexpr int kSlot = 2 * Tile::kBytes, kScales = P::kRowScales ? 2 * kKeys : 0;  // bytes; floats
  constexpr int kRings = kWarps * kStages * kSlot;
  static_assert(kGroup <= 16 && !(P::kAppend && P::kQuantized));

  // Rings; scales of their rows; barriers; with kAppend a tile for the new key, and the new rows.
  constexpr int kScalesAt = kRings, kBarriersAt = kScalesAt + kWarps * kStages * kScales * 4;
  constexpr int kAppendAt = ceil_div(kBarriersAt + kWarps * kStages * 8, 1024) * 1024;
  extern __shared__ __align__(1024) unsigned char unaligned[];
  unsigned char* const shared = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned char* const ring = shared + warp * kStages * kSlot;
  float* const ring_scales = reinterpret_cast<float*>(shared + kScalesAt) + warp * kStages * kScales;
  BulkBarrier* const full = reinterpret_cast<BulkBarrier*>(shared + kBarriersAt) + warp * kStages;

  const int split = blockIdx.x, kv_head = blockIdx.y, batch = blockIdx.z;
  const int length = args.lengths[batch];
  const int begin = P::first_key(length), cached = P::kAppend ? max_of(0, length - 1) : length;
  const int cached_chunks = ceil_div(cached, kKeys),
            skipped = begin < cached ? begin / kKeys : cached_chunks;  // chunks before the window
  const int chunks = cached_chunks + (P::kAppend && length > 0);
  const int old_chunks = P::kAppend ? cached_chunks : chunks - 1;  // written before this step
  const long long count = chunks - skipped;
  const int first = skipped + static_cast<int>(count * split / kSplits) + warp;
  const int end = skipped + static_cast<int>(count * (split + 1) / kSplits);
  const KvCache<P> cache(args, batch, kv_head);

  const auto ask = [&](int chunk, int slot) {
    const int key = chunk * kKeys;
    const long long row = cache.row(key);
    const int y = static_cast<int>(P::kPage ? row % max_of(P::kPage, 1) : row);
    const int z =
        P::kPage ? static_cast<int>(row / max_of(P::kPage, 1)) + kv_head : batch * P::kKvHeads + kv_head;
    unsigned char* const k = ring + slot * kSlot;
    const int scale_bytes = P::kRowScales ? min_of(kKeys, args.capacity - key) * 4 : 0;
    bulk_expect(full + slot, kSlot + 2 * scale_bytes);
    tensor_copy_once(k, k_map, 0, y * Tile::kLines, z, full + slot);
    tensor_copy_once(k + Tile::kBytes, v_map, 0, y * Tile::kLines, z, full + slot);
    if constexpr (P::kRowScales) {
      bulk_copy_once(ring_scales + slot * kScales, cache.k_scales + row, scale_bytes, full + slot);
      bulk_copy_once(ring_scales + slot * kScales + kKeys, cache.v_scales + row, scale_bytes, full + slot);
    }
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < min_of(end, old_chunks)) ask(first + s * kWarps, s);
  }
  using Append = RingAppend<kGroup, kHeadDim>;
  unsigned char* const new_tile = shared + kAppendAt;
  [[maybe_unused]] Append& append = *reinterpret_cast<Append*>(new_tile + kSlot);
  if constexpr (P::kAppend) append.rotate_to(args, length - 1);
  pdl_launch_next();
  pdl_wait();
  if (!P::kAppend && lane == 0)
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < end && first + s * kWarps == chunks - 1) ask(chunks - 1, s);
  if constexpr (P::kAppend) {
    __syncthreads();
    if (length > 0) {
      const bool owner = split == kSplits - 1;
      const long long row = cache.row(length - 1);
      append.template take<T, P::kQHeads, P::kKvHeads, kBlock>(
          args, batch, kv_head * kGroup, reinterpret_cast<T*>(new_tile),
          reinterpret_cast<T*>(new_tile + Tile::kBytes), owner ? cache.k_at(row, 0) : nullptr,
          owner ? cache.v_at(row, 0) : nullptr, [](int i) { return Tile::offset(0, i / 8) / 2 + i % 8; });
    }
    __syncthreads();
  }
  __syncwarp();

  // Heads g and g + 8; of a step's 16 elements a lane takes 2t, 2t + 1 and 8 further, or (codes) 4t to 4t
  // + 3.
  unsigned q[kSteps][4] = {};
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int head = g + 8 * half;
    if (head >= kGroup || length == 0) continue;
    const T* row = static_cast<const T*>(args.q) +
                   (static_cast<long long>(batch) * P::kQHeads + kv_head * kGroup + head) * kHeadDim;
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = s * 16 + (P::kQuantized ? 4 * t + 2 * i : 2 * t + 8 * i);
        if constexpr (P::kAppend)
          q[s][2 * i + half] = pack2<F>(append.q[head][at], append.q[head][at + 1]);
        else if constexpr (is_same<F, T>)
          q[s][2 * i + half] = *reinterpret_cast<const unsigned*>(row + at);
        else
          q[s][2 * i + half] = pack2<F>(to_float(row[at]), to_float(row[at + 1]));
      }
  }

  float top[kHalves], sum[kHalves];  // of heads g and g + 8; sums: this lane's columns
  float out[kHalves][kSteps][4] = {};
#pragma unroll
  for (int half = 0; half < kHalves; ++half) top[half] = -WARPTUNE_INFINITY, sum[half] = 0;
  const float scale = args.scale * kLog2e * cache.head_k_scale();

  int slot = 0;
  unsigned parity = 0;
  for (int chunk = first; chunk < end; chunk += kWarps) {
    const bool is_new = P::kAppend && chunk == cached_chunks;
    if (!is_new) bulk_wait(full + slot, parity);
    unsigned char* const k = is_new ? new_tile : ring + slot * kSlot;
    unsigned char* const v = k + Tile::kBytes;
    float* const scales = ring_scales + slot * kScales;
    const int valid = is_new ? 1 : min_of(kKeys, cached - chunk * kKeys);  // keys [ignored, valid) count
    const int ignored = is_new ? 0 : max_of(0, begin - chunk * kKeys);
    if (valid < kKeys) {  // the rows behind hold anything, and 0 times anything may be NaN
      for (int at = valid * Tile::kRowBytes + lane * 16; at < Tile::kBytes; at += 32 * 16)
        *reinterpret_cast<uint4*>(v + at) = {};
      if constexpr (P::kRowScales)
        for (int row = valid + lane; row < kKeys; row += 32) scales[kKeys + row] = 0;
      __syncwarp();
    }

    float p[kKeys / 8][4] = {};
    const unsigned k_shared = shared_address(k), v_shared = shared_address(v);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair)
#pragma unroll
      for (int piece = 0; piece < Tile::kRowBytes / 16; piece += 2) {
        unsigned r[4];  // keys 0 to 7: two pieces; keys 8 to 15: two pieces
        load_matrix_x4_at(r, k_shared + Tile::lane_offset(piece) + pair * 16 * Tile::kRowBytes);
#pragma unroll
        for (int nt = 0; nt < 2; ++nt) {
          if constexpr (P::kQuantized) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const CodePairs x = to_fp16_pairs<true>(r[2 * nt + i], C{});
              mma_m16n8k16<F>(p[2 * pair + nt], q[piece + i], x.first, x.second);
            }
          } else {
            mma_m16n8k16<F>(p[2 * pair + nt], q[piece / 2], r[2 * nt], r[2 * nt + 1]);
          }
        }
      }
    if constexpr (P::kRowScales) {
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[nt][i] *= scales[nt * 8 + 2 * t + i % 2];
    }
    if (valid < kKeys || ignored > 0) {
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = nt * 8 + 2 * t + i % 2;
          if (key >= valid || key < ignored) p[nt][i] = -WARPTUNE_INFINITY;
        }
    }

#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float high = top[half];
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt) high = fmaxf(high, fmaxf(p[nt][2 * half], p[nt][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      if (__any_sync(0xffffffffu, high > top[half])) {
        const float shrink = exp2_fast((top[half] - high) * scale);
        sum[half] *= shrink;
        top[half] = high;
        const float even = __shfl_sync(0xffffffffu, shrink, 8 * t),
                    odd = __shfl_sync(0xffffffffu, shrink, 8 * t + 4);
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[half][m][i] *= i % 2 ? odd : even;
      }
      const float offset = high * scale;
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = p[nt][2 * half + i];
          sum[half] += x = exp2_fast(fmaf(x, scale, -offset));
          if constexpr (P::kRowScales) x *= scales[kKeys + nt * 8 + 2 * t + i];
        }
    }

#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      unsigned weights[kHalves][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          weights[half][i] = pack2<F>(p[2 * pair + i][2 * half], p[2 * pair + i][2 * half + 1]);
#pragma unroll
      for (int piece = 0; piece < Tile::kRowBytes / 16; piece += 2) {
        unsigned r[4];  // keys 0 to 7: two pieces; keys 8 to 15: two pieces
        load_matrix_x4_transposed_at(r, v_shared + Tile::lane_offset(piece) + pair * 16 * Tile::kRowBytes);
        if constexpr (P::kQuantized) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const CodePairs low = to_fp16_pairs<false>(r[i], C{}), high = to_fp16_pairs<false>(r[2 + i], C{});
            const unsigned rows[4] = {low.first, low.second, high.first, high.second};
#pragma unroll
            for (int half = 0; half < kHalves; ++half)
              mma_m16n8k16<F>(out[half][piece + i], rows, weights[half][0], weights[half][1]);
          }
        } else {
#pragma unroll
          for (int half = 0; half < kHalves; ++half)
            mma_m16n8k16<F>(out[half][piece / 2], r, weights[half][0], weights[half][1]);
        }
      }
    }

    __syncwarp();
    if (lane == 0 && chunk + kStages * kWarps < min_of(end, cached_chunks))
      ask(chunk + kStages * kWarps, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  __syncthreads();  // nobody reads the rings any more
  const Output<P> output(args, batch, kv_head * kGroup);
  if (length == 0) {
    if (split == 0) output.template put_nothing<kGroup, kBlock>();
    return;
  }
  using Merge = RingMerge<P, kWarps, kGroup, kSplits, kCluster>;
  Merge& merge = *reinterpret_cast<Merge*>(shared);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    float total = sum[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (t == 0 && g + 8 * half < kGroup)
      merge.warps.states[warp][g + 8 * half] = {fmaxf(top[half] * scale, kNoScore), total};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = 8 * half + 2 * t + i;
      if (head >= kGroup) continue;
#pragma unroll
      for (int m = 0; m < kSteps; ++m)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          merge.warps.rows[warp][head][m * 16 + (P::kQuantized ? 2 * g + j : g + 8 * j)] =
              out[half][m][2 * j + i];
    }
  }
  __syncthreads();
  merge.finish(args, static_cast<long long>(batch) * P::kQHeads + kv_head * kGroup, output);
}

}  // namespace warptune
