// Idea: flash decoding on tensor cores, K and V straight from memory to the registers of the products: no
// ring, no barrier, no bank conflict, and 16-byte loads as split_seq has them. What hides the latency is the
// number of warps, kPerSm per multiprocessor. The products are mma_group.cuh; early loads and append as in
// split_ring.cu, the merge is ring_merge.cuh.
#include "kernels/attention_decode/mma_group.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

/// What a lane takes of kKeys keys, in registers.
template <class P, int kKeys>
struct HeldChunk : ChunkPieces<P, kKeys> {
  using Pieces = ChunkPieces<P, kKeys>;
  using C = typename P::C;
  uint4 keys[Pieces::kTiles][Pieces::kPerK], values[Pieces::kTiles][2][Pieces::kPerV];
  float k_scales[Pieces::kTiles][2], v_scales[Pieces::kTiles][2];

  /// Keys [first_key, first_key + cached) of the cache; for those behind the last is taken.
  __device__ __forceinline__ void fetch(const KvCache<P>& cache, int first_key, int cached) {
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(first_key);
    const auto load = [](const C* from) {
      const auto x = load_vec_nc<Pieces::kX>(from);
      return *reinterpret_cast<const uint4*>(&x);
    };
#pragma unroll
    for (int tile = 0; tile < Pieces::kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < Pieces::kPerK; ++i)
        keys[tile][i] = load(cache.k_at(row + min_of(Pieces::k_key(tile), cached - 1), Pieces::k_column(i)));
#pragma unroll
    for (int tile = 0; tile < Pieces::kTiles; ++tile)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const long long at = row + min_of(Pieces::v_key(tile, odd), cached - 1);
#pragma unroll
        for (int i = 0; i < Pieces::kPerV; ++i)
          values[tile][odd][i] = load(cache.v_at(at, Pieces::v_column(i)));
        if constexpr (P::kRowScales) {
          k_scales[tile][odd] = cache.k_scale(at);
          v_scales[tile][odd] = cache.v_scale(at);
        }
      }
  }
  /// Puts the new key behind those of the cache, and wherever none counts.
  template <class Fresh>
  __device__ __forceinline__ void put_new(const Fresh& fresh, int cached) {
#pragma unroll
    for (int tile = 0; tile < Pieces::kTiles; ++tile) {
      if (Pieces::k_key(tile) >= cached)
#pragma unroll
        for (int i = 0; i < Pieces::kPerK; ++i)
          keys[tile][i] = *reinterpret_cast<const uint4*>(fresh.k + Pieces::k_column(i));
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        if (Pieces::v_key(tile, odd) < cached) continue;
#pragma unroll
        for (int i = 0; i < Pieces::kPerV; ++i)
          values[tile][odd][i] = *reinterpret_cast<const uint4*>(fresh.v + Pieces::v_column(i));
        k_scales[tile][odd] = fresh.scales[0];
        v_scales[tile][odd] = fresh.scales[1];
      }
    }
  }
  __device__ __forceinline__ uint4 k(int tile, int i) const { return keys[tile][i]; }
  __device__ __forceinline__ uint4 v(int tile, int odd, int i) const { return values[tile][odd][i]; }
  __device__ __forceinline__ float k_scale(int tile, int odd) const { return k_scales[tile][odd]; }
  __device__ __forceinline__ float v_scale(int tile, int odd) const { return v_scales[tile][odd]; }
};

template <class P, int kWarps, int kPerSm, int kKeys, int kSplits, int kCombine>
__global__ void __launch_bounds__(kWarps * 32, kPerSm / kWarps)
    attention_decode_mma_direct(AttentionDecodeArgs args) {
  using Fresh = FreshRows<P, kWarps * 32>;
  extern __shared__ __align__(16) unsigned char shared[];
  Fresh& fresh = *reinterpret_cast<Fresh*>(shared);

  const int warp = threadIdx.x / 32, split = blockIdx.x, kv_head = blockIdx.y, batch = blockIdx.z;
  const int first_head = kv_head * P::kGroup;
  const bool owner = split == kSplits - 1;  // of the new key
  [[maybe_unused]] const typename Fresh::Weights weights(args, first_head, owner);
  const ChunkShare<P, kKeys, kWarps, kSplits> share(args, batch, split, warp);
  const KvCache<P> cache(args, batch, kv_head);

  HeldChunk<P, kKeys> held;
  const bool early = share.first < share.old_end;
  if (early) held.fetch(cache, share.first * kKeys, share.cached(share.first));
  pdl_launch_dependents();
  pdl_wait();
  const Output<P> output(args, batch, first_head);
  if (share.length == 0) {
    if (split == 0) output.template put_nothing<P::kGroup, kWarps * 32>();
    return;
  }
  if (!early && share.first < share.end) held.fetch(cache, share.first * kKeys, share.cached(share.first));

  MmaGroup<P> group(args, cache, batch, first_head, share.length);
  begin_group<false>(group, args, cache, batch, first_head, share.length, weights, owner, fresh);
  using Merge = RingMerge<P, kWarps, P::kGroup, kSplits, kCombine>;
  const long long first_row = static_cast<long long>(batch) * P::kQHeads + first_head;
  unsigned drawn = 0;
  if (share.first + kWarps >= share.end) drawn = Merge::draw(args, first_row);
  for (int chunk = share.first; chunk < share.end; chunk += kWarps) {
    const int valid = share.valid(chunk), cached = share.cached(chunk);
    if (chunk != share.first) {
      held.fetch(cache, chunk * kKeys, cached);
      if (chunk + kWarps >= share.end) drawn = Merge::draw(args, first_row);
    }
    if constexpr (P::kAppend)
      if (cached < valid) held.put_new(fresh, cached);
    group.attend(held, chunk * kKeys, share.ignored(chunk), valid);
  }

  if constexpr (P::kAppend) __syncthreads();  // nobody reads the new rows any more
  Merge& merge = *reinterpret_cast<Merge*>(shared);
  group.store(merge);
  merge.finish(args, first_row, split, output, drawn);
}

}  // namespace warptune
