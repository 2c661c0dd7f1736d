#pragma once
// Which keys of a sequence a warp takes.
#include "kernels/attention_decode/problem.cuh"

namespace warptune {

/// Chunks of kKeys keys, dealt to splits in ranges, and to the warps of a block in turns. The new key of a
/// problem with append is the last, and not in the cache.
template <class P, int kKeys, int kWarps, int kSplits>
struct ChunkShare {
  int length, begin;        // keys: all; the first that counts
  int first, end, old_end;  // chunks first, first + kWarps, ..; those before old_end are of earlier steps

  __device__ __forceinline__ ChunkShare(const AttentionDecodeArgs& args, int batch, int split, int warp)
      : length(args.lengths[batch]) {
    begin = P::first_key(length);
    const int chunks = ceil_div(length, kKeys), skipped = begin / kKeys;
    const long long count = chunks - skipped;
    first = skipped + static_cast<int>(count * split / kSplits) + warp;
    end = skipped + static_cast<int>(count * (split + 1) / kSplits);
    old_end = P::kAppend ? end : min_of(end, chunks - 1);
  }
  /// Of a chunk, the keys that count are [ignored, valid).
  __device__ __forceinline__ int ignored(int chunk) const { return max_of(0, begin - chunk * kKeys); }
  __device__ __forceinline__ int valid(int chunk) const { return min_of(kKeys, length - chunk * kKeys); }
  /// Those of them that are in the cache, from the chunk's first on.
  __device__ __forceinline__ int cached(int chunk) const {
    return min_of(kKeys, length - P::kAppend - chunk * kKeys);
  }
};

}  // namespace warptune
