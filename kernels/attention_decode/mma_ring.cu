// Idea: split_ring for groups of query heads on tensor cores. Chunks of keys come by bulk copies into a ring
// per warp: plain runs of memory, whole lines of 128 bytes in both places. (Tensor copies, and bulk copies
// to shifted places, cost 5 to 7 % of the bandwidth.) The products are mma_group.cuh, which takes rows as
// they lie; what is asked for early and append are those of split_ring.cu, the merge is ring_merge.cuh.
#include "attention_decode/mma_group.cuh"
#include "common/bulk_copy.cuh"
#include "common/bulk_prefetch.cuh"
#include "common/pdl.cuh"

namespace warptune {

template <class P, int kWarps, int kKeys, int kStages, int kAhead, int kSplits, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_mma_ring(AttentionDecodeArgs args) {
  using C = typename P::C;
  using Fresh = FreshRows<P, kWarps * 32>;
  constexpr int kTile = kKeys * P::kHeadDim, kScales = P::kRowScales ? 2 * kKeys : 0,
                kSlots = kWarps * kStages;
  static_assert(P::kHeadDim * sizeof(C) % 128 == 0);

  // Rings; scales of their rows; barriers; the new rows.
  constexpr int kScalesAt = kSlots * 2 * kTile * static_cast<int>(sizeof(C));
  constexpr int kBarriersAt = kScalesAt + kSlots * kScales * 4;
  constexpr int kFreshAt = ceil_div(kBarriersAt + kSlots * 8, 16) * 16;
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  C* const ring = reinterpret_cast<C*>(shared) + warp * kStages * 2 * kTile;
  float* const ring_scales = reinterpret_cast<float*>(shared + kScalesAt) + warp * kStages * kScales;
  BulkBarrier* const full = reinterpret_cast<BulkBarrier*>(shared + kBarriersAt) + warp * kStages;
  Fresh& fresh = *reinterpret_cast<Fresh*>(shared + kFreshAt);

  const int split = blockIdx.x, kv_head = blockIdx.y, batch = blockIdx.z, first_head = kv_head * P::kGroup;
  [[maybe_unused]] const float frequency = Fresh::Append::frequency(args);
  const ChunkShare<P, kKeys, kWarps, kSplits> share(args, batch, split, warp);
  const KvCache<P> cache(args, batch, kv_head);

  const auto ask = [&](int chunk, int slot) {
    const int keys = share.valid(chunk);
    const unsigned bytes = keys * P::kHeadDim * static_cast<int>(sizeof(C)),
                   scale_bytes = P::kRowScales ? ceil_div(keys, 4) * 16 : 0;
    const long long row = cache.row(chunk * kKeys);
    C* const k = ring + slot * 2 * kTile;
    bulk_expect(full + slot, 2 * (bytes + scale_bytes));
    bulk_copy_once(k, cache.k_at(row, 0), bytes, full + slot);
    bulk_copy_once(k + kTile, cache.v_at(row, 0), bytes, full + slot);
    if constexpr (P::kRowScales) {
      float* const scales = ring_scales + slot * kScales;
      bulk_copy_once(scales, cache.k_scales + row, scale_bytes, full + slot);
      bulk_copy_once(scales + kKeys, cache.v_scales + row, scale_bytes, full + slot);
    }
  };
  const auto prefetch = [&](int chunk) {
    const unsigned bytes = share.valid(chunk) * P::kHeadDim * static_cast<int>(sizeof(C));
    const long long row = cache.row(chunk * kKeys);
    bulk_prefetch(cache.k_at(row, 0), bytes);
    bulk_prefetch(cache.v_at(row, 0), bytes);
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
    for (int s = 0; s < kStages; ++s)
      if (share.first + s * kWarps < share.old_end) ask(share.first + s * kWarps, s);
    for (int s = kStages; s < kStages + kAhead; ++s)
      if (share.first + s * kWarps < share.old_end) prefetch(share.first + s * kWarps);
  }
  pdl_launch_next();
  pdl_wait();
  const Output<P> output(args, batch, first_head);
  if (share.length == 0) {
    if (split == 0) output.template put_nothing<P::kGroup, kWarps * 32>();
    return;
  }
  if (lane == 0)
    for (int s = 0; s < kStages; ++s)
      if (share.first + s * kWarps >= share.old_end && share.first + s * kWarps < share.end)
        ask(share.first + s * kWarps, s);

  const bool owner = split == kSplits - 1;
  MmaGroup<P> group(args, cache, batch, first_head, share.length);
  begin_group(group, args, cache, batch, first_head, share.length, frequency, owner, fresh);
  __syncwarp();

  const bool takes_new = P::kAppend && owner && warp == kWarps - 1;  // while the first copies come
  int slot = 0;
  unsigned parity = 0;
  for (int chunk = share.first - (takes_new ? kWarps : 0); chunk < share.end; chunk += kWarps) {
    if (P::kAppend && chunk < share.first) {
      group.attend(SharedChunk<P, kKeys>(fresh.k, fresh.v, fresh.append.scales, fresh.append.scales + 1, 1),
                   share.length - 1, 0, 1);
      continue;
    }
    bulk_wait(full + slot, parity);
    const C* const k = ring + slot * 2 * kTile;
    const float* const scales = ring_scales + slot * kScales;
    const int valid = share.valid(chunk);
    group.attend(SharedChunk<P, kKeys>(k, k + kTile, scales, scales + kKeys, valid), chunk * kKeys,
                 share.ignored(chunk), valid);
    __syncwarp();
    if (lane == 0 && chunk + kStages * kWarps < share.end) ask(chunk + kStages * kWarps, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  __syncthreads();  // nobody reads the rings any more
  using Merge = RingMerge<P, kWarps, P::kGroup, kSplits, kCluster>;
  Merge& merge = *reinterpret_cast<Merge*>(shared);
  group.store(merge);
  __syncthreads();
  merge.finish(args, static_cast<long long>(batch) * P::kQHeads + first_head, output);
}

}  // namespace warptune
