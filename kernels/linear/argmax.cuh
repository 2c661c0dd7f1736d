#pragma once
// Epilogue argmax of the GEMMs: the index of each token's largest output as rounded to T; of equals, the
// lowest. Keys are those of the op argmax (sort_key.cuh), so both give the same ids.
// Combine: blocks write their largest keys to the workspace with atomicMax, which gives the same result in
//   any order; the last block writes the ids and resets the workspace for the next launch.
// Workspace: unsigned long long best[tokens], then unsigned arrivals.
#include "kernels/common/barrier.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/linear/args.h"

namespace warptune {

__device__ __forceinline__ void put_key(const ArgmaxLinearArgs& args, int token, unsigned long long key) {
  atomicMax(static_cast<unsigned long long*>(args.workspace) + token, key);
}

/// Puts the largest key of the lanes of `mask`, which differ in the lane bits kLow to kHigh / 2. They all
/// call.
template <int kLow, int kHigh, class Word>
__device__ __forceinline__ void put_largest_key(const ArgmaxLinearArgs& args, int token, Word key,
                                                unsigned mask) {
#pragma unroll
  for (int offset = kLow; offset < kHigh; offset *= 2) key = max_key(key, __shfl_xor_sync(mask, key, offset));
  if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(mask)) - 1) put_key(args, token, key);
}

/// The first kThreads threads of every block of the grid call, after they have put their keys.
template <class T, int kOut, int kThreads>
__device__ __forceinline__ void write_ids(const ArgmaxLinearArgs& args) {
  using Key = SortKey<T, kOut>;
  auto* const best = static_cast<unsigned long long*>(args.workspace);
  if (!is_last_block<kThreads>(reinterpret_cast<unsigned*>(best + args.tokens), gridDim.x)) return;
  for (int t = threadIdx.x; t < args.tokens; t += kThreads)
    args.ids[t] = Key::index(static_cast<typename Key::Word>(atomicExch(best + t, 0ull)));
}

/// The largest keys of a block. They lie in shared memory: in registers they would cost the main loop of a
/// GEMV some spills. Without the epilogue nothing happens.
template <class T, int kOut, int kEpilogue, int kTokens>
struct BlockKeys {
  static constexpr bool kArgmax = kEpilogue == kEpilogueArgmax;
  static __device__ __forceinline__ unsigned long long* keys() {
    __shared__ unsigned long long largest[kTokens];
    return largest;
  }

  /// All threads of the block, before the first add().
  static __device__ __forceinline__ void clear() {
    if constexpr (kArgmax) {
      if (threadIdx.x < kTokens) keys()[threadIdx.x] = 0;
      __syncthreads();
    }
  }
  /// One thread: an output that it has stored.
  static __device__ __forceinline__ void add(int token, T y, int o) {
    if constexpr (kArgmax)
      atomicMax(keys() + token, static_cast<unsigned long long>(SortKey<T, kOut>::make(y, o)));
  }
  /// All kThreads threads of the block, after the last add().
  template <int kThreads, class Args>
  static __device__ __forceinline__ void write(const Args& args) {
    if constexpr (kArgmax) {
      __syncthreads();
      if (threadIdx.x < kTokens) put_key(args, static_cast<int>(threadIdx.x), keys()[threadIdx.x]);
      write_ids<T, kOut, kThreads>(args);
    }
  }
};

}  // namespace warptune
