// Idea: split_ring for groups of query heads on tensor cores. Chunks of keys come by bulk copies into a ring
// per warp: plain runs of memory, whole lines of 128 bytes in both places. (Tensor copies, and bulk copies
// to shifted places, cost 5 to 7 % of the bandwidth.) The products are mma_group.cuh, which takes rows as
// they lie; append is ring_append.cuh, the merge ring_merge.cuh. The ring is that of key_ring.cuh, written
// out: through the struct the compiler works out places again for each chunk, which costs 0.5 to 3 %.
#include "attention_decode/mma_group.cuh"
#include "common/bulk_copy.cuh"
#include "common/bulk_prefetch.cuh"
#include "common/pdl.cuh"
#include "common/waves.cuh"

namespace warptune {

template <class P, int kWarps, int kKeys, int kStages, int kAhead, int kSplits, int kCombine>
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
  const bool owner = split == kSplits - 1;  // of the new key
  [[maybe_unused]] const typename Fresh::Weights weights(args, first_head, owner);
  const ChunkShare<P, kKeys, kWarps, kSplits> share(args, batch, split, warp);
  const KvCache<P> cache(args, batch, kv_head);

  const auto ask = [&](int chunk, int slot) {
    const int keys = share.cached(chunk);
    const unsigned bytes = keys * P::kHeadDim * static_cast<int>(sizeof(C)),
                   scale_bytes = P::kRowScales ? ceil_div(keys, 4) * 16 : 0;
    bulk_expect(full + slot, 2 * (bytes + scale_bytes));
    if (P::kAppend && keys == 0) return;
    const long long row = cache.row(chunk * kKeys);
    C* const k = ring + slot * 2 * kTile;
    bulk_copy_once(k, cache.k_at(row, 0), bytes, full + slot);
    bulk_copy_once(k + kTile, cache.v_at(row, 0), bytes, full + slot);
    if constexpr (P::kRowScales) {
      float* const scales = ring_scales + slot * kScales;
      bulk_copy_once(scales, cache.k_scales + row, scale_bytes, full + slot);
      bulk_copy_once(scales + kKeys, cache.v_scales + row, scale_bytes, full + slot);
    }
  };
  const auto prefetch = [&](int chunk) {
    const unsigned bytes = share.cached(chunk) * P::kHeadDim * static_cast<int>(sizeof(C));
    if (P::kAppend && bytes == 0) return;
    const long long row = cache.row(chunk * kKeys);
    bulk_prefetch(cache.k_at(row, 0), bytes);
    bulk_prefetch(cache.v_at(row, 0), bytes);
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
    for (int s = 0; s < kStages; ++s)
      if (share.first + s * kWarps < share.old_end) ask(share.first + s * kWarps, s);
    if (kAhead > 0 && in_first_wave() && share.first < share.old_end) bulk_wait(full, 0);
    for (int s = kStages; s < kStages + kAhead; ++s)
      if (share.first + s * kWarps < share.old_end) prefetch(share.first + s * kWarps);
  }
  if (!single_wave() || share.first + kStages * kWarps >= share.end) pdl_launch_next();
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

  MmaGroup<P> group(args, cache, batch, first_head, share.length);
  begin_group(group, args, cache, batch, first_head, share.length, weights, owner, fresh);
  __syncwarp();

  using Merge = RingMerge<P, kWarps, P::kGroup, kSplits, kCombine>;
  const long long first_row = static_cast<long long>(batch) * P::kQHeads + first_head;
  unsigned drawn = 0;
  const auto all_asked = [&] {
    pdl_launch_next();
    drawn = Merge::draw(args, first_row);
  };
  if (share.first + kStages * kWarps >= share.end) all_asked();

  int slot = 0;
  unsigned parity = 0;
  for (int chunk = share.first; chunk < share.end; chunk += kWarps) {
    bulk_wait(full + slot, parity);
    C* const k = ring + slot * 2 * kTile;
    float* const scales = ring_scales + slot * kScales;
    const int valid = share.valid(chunk), cached = share.cached(chunk);
    if (P::kAppend && cached < valid) {
      if (P::kRowScales && lane < 2) scales[lane * kKeys + cached] = fresh.scales[lane];
      fresh.put(k + cached * P::kHeadDim, k + kTile + cached * P::kHeadDim);
    }
    group.attend(SharedChunk<P, kKeys>(k, k + kTile, scales, scales + kKeys, valid), chunk * kKeys,
                 share.ignored(chunk), valid);
    __syncwarp();
    const int next = chunk + kStages * kWarps;
    if (next < share.end) {
      if (lane == 0) ask(next, slot);
      if (next + kWarps >= share.end) all_asked();
    }
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  __syncthreads();  // nobody reads the rings any more
  Merge& merge = *reinterpret_cast<Merge*>(shared);
  group.store(merge);
  merge.finish(args, first_row, output, drawn);
}

}  // namespace warptune
