// Idea: rings that never run dry (fed_rings.cuh) in front of tensor cores that take the query heads of a KV
// head at once (mma_group.cuh), the rows of K and V as they lie. Append is ring_append.cuh, the merge
// ring_merge.cuh. One block per multiprocessor.
#include "kernels/attention_decode/fed_rings.cuh"
#include "kernels/attention_decode/mma_group.cuh"

namespace warptune {

template <class P, int kWarps, int kKeys, int kStages, int kUnderWay, int kAhead, int kSplits, int kCombine>
__global__ void __launch_bounds__(kWarps * 32 + 32) attention_decode_mma_ring(AttentionDecodeArgs args) {
  constexpr int kThreads = kWarps * 32;  // that attend
  using Rings = FedRings<P, kKeys, kWarps, kStages, kUnderWay, kAhead, kSplits>;
  using Fresh = FreshRows<P, kThreads>;
  using Merge = RingMerge<P, kWarps, P::kGroup, kSplits, kCombine>;
  constexpr int kFreshAt = Rings::kEnd,
                kMergeAt = kFreshAt + (P::kAppend ? ceil_div(static_cast<int>(sizeof(Fresh)), 16) * 16 : 0);
  extern __shared__ __align__(128) unsigned char shared[];
  Fresh& fresh = *reinterpret_cast<Fresh*>(shared + kFreshAt);
  Merge& merge = *reinterpret_cast<Merge*>(shared + kMergeAt);

  Rings rings(args, shared);
  __syncthreads();
  if (rings.warp == kWarps) {
    rings.feed(args, Merge::tickets(args));
    return;
  }

  int share = static_cast<int>(blockIdx.x);
  if (share >= rings.shares) share = -1;
  const auto first_head = [&] { return Rings::kv_head(share) * P::kGroup; };
  const auto owner = [&] { return Rings::split(share) == kSplits - 1; };  // of the new key
  int length = share < 0 ? 0 : args.lengths[Rings::batch(share)];
  [[maybe_unused]] typename Fresh::Weights weights(args, share < 0 ? 0 : first_head(), share >= 0 && owner());
  if (P::kAppend && share >= 0) fresh.rotate(length - 1, weights);
  pdl_wait();
  while (share >= 0) {
    const int batch = Rings::batch(share);
    const KvCache<P> cache(args, batch, Rings::kv_head(share));
    const long long first_row = static_cast<long long>(batch) * P::kQHeads + first_head();
    MmaGroup<P> group(args, cache, batch, first_head(), length);
    begin_group<true>(group, args, cache, batch, first_head(), length, weights, owner() && length > 0, fresh);

    unsigned drawn = 0;
    for (bool more = true, draws = true; more;) {
      const FedChunk now = rings.wait();
      if (draws && now.left <= kStages) {
        drawn = Merge::draw(args, first_row);
        draws = false;
      }
      if (now.chunk >= 0) {
        const int first_key = now.chunk * kKeys, valid = min_of(kKeys, length - first_key),
                  cached = min_of(kKeys, length - P::kAppend - first_key);
        if (P::kAppend && cached < valid) {
          if (P::kRowScales && threadIdx.x % 32 == 0) {
            rings.k_scales()[cached] = fresh.scales[0];
            rings.v_scales()[cached] = fresh.scales[1];
          }
          fresh.put(rings.keys() + cached * P::kHeadDim, rings.values() + cached * P::kHeadDim);
        }
        group.attend(
            SharedChunk<P, kKeys>(rings.keys(), rings.values(), rings.k_scales(), rings.v_scales(), valid),
            first_key, max_of(0, P::first_key(length) - first_key), valid);
      }
      rings.next();
      more = now.left > 1;
    }

    named_barrier_sync<kThreads>();  // nobody reads the merge before, nor the new rows
    group.store(merge);
    merge.finish(args, first_row, Rings::split(share), Output<P>(args, batch, first_head()), drawn);
    const FedChunk next = rings.wait();
    share = next.share;
    length = next.length;
    if (P::kAppend && share >= 0) {
      weights = typename Fresh::Weights(args, first_head(), owner());
      fresh.rotate(length - 1, weights);
    }
  }
}

}  // namespace warptune
