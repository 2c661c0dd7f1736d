// Idea: flash decoding on tensor cores, K and V straight from memory to the registers of the products: no
// ring, no barrier, no bank conflict, and 16-byte loads as split_seq has them (a multiprocessor's copy unit
// gives mma_ring 5 to 10 % less bandwidth). What hides the latency is the number of warps, kPerSm per
// multiprocessor.
//
// S = Q.K^T has the heads of a group as rows (m16), keys as columns (n8); O^T = V^T.P^T has elements of
// head_dim as rows and 8 heads as columns, so that the scores of a lane become its B fragment of P^T where
// they are. The order of the summed index is free in a product: a lane takes the 16 neighbouring bytes of a K
// row as the fragments of several steps, and q is read in the same order. So are rows of O^T: a lane takes 16
// neighbouring bytes of the V rows of two keys and interleaves them. Codes of 8 bits become fp16
// (common/codes.cuh). Fragment layouts: common/mma.cuh. Early loads and append as in split_ring.cu, the merge
// is ring_merge.cuh.
#include "attention_decode/ring_append.cuh"
#include "attention_decode/ring_merge.cuh"
#include "common/mma.cuh"
#include "common/pdl.cuh"

namespace warptune {

/// What a lane (g, t) holds of kKeys keys, as it comes from memory.
template <class P, int kKeys>
struct DirectChunk {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>;
  static constexpr int kTiles = kKeys / 8;            // of columns
  static constexpr int kPerK = P::kHeadDim / kX / 4;  // 16-byte pieces of a K row per lane
  static constexpr int kPerV = P::kHeadDim / kX / 8;  // and of a V row
  static_assert(P::kHeadDim % (8 * kX) == 0 && kKeys % 16 == 0);

  uint4 k[kTiles][kPerK];                   // of key g of each tile: pieces t, t + 4, ..
  uint4 v[kTiles][2][kPerV];                // of keys 2t and 2t + 1: pieces g, g + 8, ..
  float2 k_scale[kTiles], v_scale[kTiles];  // of keys 2t and 2t + 1

  /// Rows [row, row + valid) of the cache; those behind repeat the last. `load`: how 16 bytes are read.
  template <class Load>
  __device__ __forceinline__ void fetch(const KvCache<P>& cache, const C* keys, const C* values,
                                        long long row, int valid, Load load) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int nt = 0; nt < kTiles; ++nt) {
      const C* const from = keys + min_of(nt * 8 + g, valid - 1) * P::kHeadDim + t * kX;
#pragma unroll
      for (int i = 0; i < kPerK; ++i) k[nt][i] = load(from + i * 4 * kX);
    }
#pragma unroll
    for (int nt = 0; nt < kTiles; ++nt)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const C* const from = values + min_of(nt * 8 + 2 * t + odd, valid - 1) * P::kHeadDim + g * kX;
#pragma unroll
        for (int i = 0; i < kPerV; ++i) v[nt][odd][i] = load(from + i * 8 * kX);
      }
    if constexpr (P::kRowScales) {
#pragma unroll
      for (int nt = 0; nt < kTiles; ++nt) {
        const long long even = row + min_of(nt * 8 + 2 * t, valid - 1),
                        odd = row + min_of(nt * 8 + 2 * t + 1, valid - 1);
        k_scale[nt] = {cache.k_scale(even), cache.k_scale(odd)};
        v_scale[nt] = {cache.v_scale(even), cache.v_scale(odd)};
      }
    }
  }
};

/// Halves of two registers of 16-bit pairs, one of each: both low ones, both high ones.
__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

template <class P, int kWarps, int kPerSm, int kKeys, int kSplits, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32, kPerSm / kWarps)
    attention_decode_mma_direct(AttentionDecodeArgs args) {
  using T = typename P::T;
  using C = typename P::C;
  using F = typename TypeAt<P::kQuantized, T, fp16>::Type;  // of the products
  using Chunk = DirectChunk<P, kKeys>;
  constexpr int kHeadDim = P::kHeadDim, kGroup = P::kGroup, kHalves = ceil_div(kGroup, 8);
  constexpr int kSteps = kHeadDim / 16, kBlock = kWarps * 32, kTiles = Chunk::kTiles;
  constexpr int kPerWord = P::kQuantized ? 4 : 2;  // elements of a register
  static_assert(kGroup <= 16 && !(P::kAppend && P::kQuantized));
  using Merge = RingMerge<P, kWarps, kGroup, kSplits, kCluster>;
  using Append = RingAppend<kGroup, kHeadDim>;
  struct Fresh {  // the new rows
    Append rows;
    alignas(16) T k[kHeadDim], v[kHeadDim];
  };
  extern __shared__ __align__(16) unsigned char shared[];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
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

  Chunk held;
  const auto fetch = [&](int chunk) {
    const long long row = cache.row(chunk * kKeys);
    held.fetch(cache, cache.k_at(row, 0), cache.v_at(row, 0), row, min_of(kKeys, cached - chunk * kKeys),
               [](const C* p) {
                 const auto x = load_vec_once<Chunk::kX>(p);
                 return *reinterpret_cast<const uint4*>(&x);
               });
  };
  const bool early = first < min_of(end, old_chunks);
  if (early) fetch(first);
  [[maybe_unused]] Fresh& fresh = *reinterpret_cast<Fresh*>(shared);
  if constexpr (P::kAppend) fresh.rows.rotate_to(args, length - 1);
  pdl_launch_next();
  pdl_wait();
  if (!early && first < min_of(end, cached_chunks)) fetch(first);
  if constexpr (P::kAppend) {
    __syncthreads();
    if (length > 0) {
      const bool owner = split == kSplits - 1;
      const long long row = cache.row(length - 1);
      fresh.rows.template take<T, P::kQHeads, P::kKvHeads, kBlock>(
          args, batch, kv_head * kGroup, fresh.k, fresh.v, owner ? cache.k_at(row, 0) : nullptr,
          owner ? cache.v_at(row, 0) : nullptr, [](int i) { return i; });
    }
    __syncthreads();
  }

  // Heads g and g + 8. Word w of a lane's piece i of a K row is elements (4 i + t) * kX + w * kPerWord on: a
  // step has two words of 16-bit elements, or one of codes.
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
        const int word = P::kQuantized ? s : 2 * s + i;
        const int at = (word / 4 * 4 + t) * Chunk::kX + word % 4 * kPerWord + (P::kQuantized ? 2 * i : 0);
        if constexpr (P::kAppend)
          q[s][2 * i + half] = pack2<F>(fresh.rows.q[head][at], fresh.rows.q[head][at + 1]);
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

  for (int chunk = first; chunk < end; chunk += kWarps) {
    const bool is_new = P::kAppend && chunk == cached_chunks;
    if (is_new) {
      if constexpr (P::kAppend)
        held.fetch(cache, fresh.k, fresh.v, 0, 1,
                   [](const C* p) { return *reinterpret_cast<const uint4*>(p); });
    } else if (chunk != first) {
      fetch(chunk);
    }
    const int valid = is_new ? 1 : min_of(kKeys, cached - chunk * kKeys);  // keys [ignored, valid) count
    const int ignored = is_new ? 0 : max_of(0, begin - chunk * kKeys);

    float p[kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < Chunk::kPerK; ++i)
#pragma unroll
      for (int nt = 0; nt < kTiles; ++nt) {
        const unsigned words[4] = {held.k[nt][i].x, held.k[nt][i].y, held.k[nt][i].z, held.k[nt][i].w};
        if constexpr (P::kQuantized) {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const CodePairs x = to_fp16_pairs<true>(words[w], C{});
            mma_m16n8k16<F>(p[nt], q[4 * i + w], x.first, x.second);
          }
        } else {
          mma_m16n8k16<F>(p[nt], q[2 * i], words[0], words[1]);
          mma_m16n8k16<F>(p[nt], q[2 * i + 1], words[2], words[3]);
        }
      }
    if constexpr (P::kRowScales) {
#pragma unroll
      for (int nt = 0; nt < kTiles; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[nt][i] *= i % 2 ? held.k_scale[nt].y : held.k_scale[nt].x;
    }
    if (valid < kKeys || ignored > 0) {
#pragma unroll
      for (int nt = 0; nt < kTiles; ++nt)
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
      for (int nt = 0; nt < kTiles; ++nt) high = fmaxf(high, fmaxf(p[nt][2 * half], p[nt][2 * half + 1]));
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
      for (int nt = 0; nt < kTiles; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = p[nt][2 * half + i];
          sum[half] += x = exp2_fast(fmaf(x, scale, -offset));
          if constexpr (P::kRowScales) x *= i ? held.v_scale[nt].y : held.v_scale[nt].x;
        }
    }

#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      unsigned weights[kHalves][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          weights[half][i] = pack2<F>(p[2 * pair + i][2 * half], p[2 * pair + i][2 * half + 1]);
      const auto multiply = [&](int m, unsigned a0, unsigned a1, unsigned a2, unsigned a3) {
        const unsigned rows[4] = {a0, a1, a2, a3};
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          mma_m16n8k16<F>(out[half][m], rows, weights[half][0], weights[half][1]);
      };
#pragma unroll
      for (int i = 0; i < Chunk::kPerV; ++i) {
        unsigned words[4][4];  // of keys 2t and 2t + 1 of both tiles
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint4 x = held.v[2 * pair + j / 2][j % 2][i];
          words[j][0] = x.x, words[j][1] = x.y, words[j][2] = x.z, words[j][3] = x.w;
        }
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const unsigned a = words[0][w], b = words[1][w], c = words[2][w], d = words[3][w];
          if constexpr (P::kQuantized) {  // bytes of a and b in turns: pairs of one element
            const CodePairs ab = to_fp16_pairs<true>(__byte_perm(a, b, 0x5140), C{}),
                            ab2 = to_fp16_pairs<true>(__byte_perm(a, b, 0x7362), C{}),
                            cd = to_fp16_pairs<true>(__byte_perm(c, d, 0x5140), C{}),
                            cd2 = to_fp16_pairs<true>(__byte_perm(c, d, 0x7362), C{});
            multiply(i * 8 + 2 * w, ab.first, ab.second, cd.first, cd.second);
            multiply(i * 8 + 2 * w + 1, ab2.first, ab2.second, cd2.first, cd2.second);
          } else {
            multiply(i * 4 + w, low_halves(a, b), high_halves(a, b), low_halves(c, d), high_halves(c, d));
          }
        }
      }
    }
  }

  if constexpr (P::kAppend) __syncthreads();  // nobody reads the new rows any more
  const Output<P> output(args, batch, kv_head * kGroup);
  if (length == 0) {
    if (split == 0) output.template put_nothing<kGroup, kBlock>();
    return;
  }
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
        // Row tile m: elements 2 (m % (kX / 2)) and the next of the lane's piece m / (kX / 2).
#pragma unroll
      for (int m = 0; m < kSteps; ++m) {
        constexpr int kPerPiece = Chunk::kX / 2;
        *reinterpret_cast<float2*>(
            &merge.warps.rows[warp][head][(m / kPerPiece * 8 + g) * Chunk::kX + m % kPerPiece * 2]) = {
            out[half][m][i], out[half][m][2 + i]};
      }
    }
  }
  __syncthreads();
  merge.finish(args, static_cast<long long>(batch) * P::kQHeads + kv_head * kGroup, output);
}

}  // namespace warptune
