// Radix select top-k with a last-block reduction, then top-k/top-p sampling by one warp.
// Grid: (kBlocksPerRow, rows); the blocks of a row read it once, round-robin, and hold its sort keys in
//   registers.
// Select: the k-th largest key by a search over its bits, two per step. Keys above a threshold are counted
//   with warp reductions, not with shared atomics, so that equal logits cause no contention.
// Combine: every block writes its k largest keys to the workspace; the last block selects from all of them,
//   sorts the k by rank and samples.
// Workspace: int arrivals[batch], then from byte kListOffset keys [batch][kBlocksPerRow][kK].
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/top_k/sample.cuh"
#include "kernels/top_k/scores.cuh"

namespace warptune {

/// A threshold that exactly k of the block's keys reach; 0 where fewer than k are not 0. Keys are distinct;
/// the search stops as soon as k keys reach the threshold, which is at most the k-th largest. All threads
/// call it, with a barrier between two calls.
template <int kBlock, int kBits, int kItems, class Word>
__device__ __forceinline__ Word kth_largest(const Word (&keys)[kItems], int k) {
  static_assert(kBlock * kItems < 65536);
  constexpr int kWarps = kBlock / 32;
  constexpr unsigned kAll = 0xffffffffu;
  __shared__ uint2 counts[2][kWarps];  // one is written while the other may still be read
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Word threshold = 0;
  int parity = 0;
  for (int shift = (kBits + 1) / 2 * 2 - 2; shift >= 0; shift -= 2, parity ^= 1) {
    const Word step = Word{1} << shift;
    const Word one = threshold + step, two = one + step, three = two + step;
    unsigned low = 0, high = 0;  // keys >= one (lower half) and >= two (upper half); >= three
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      low += (keys[i] >= one ? 1u : 0u) + (keys[i] >= two ? 0x10000u : 0u);
      high += keys[i] >= three ? 1u : 0u;
    }
    low = __reduce_add_sync(kAll, low);
    high = __reduce_add_sync(kAll, high);
    if (lane == 0) counts[parity][warp] = make_uint2(low, high);
    __syncthreads();
    uint2 c = make_uint2(0, 0);
    if (lane < kWarps) c = counts[parity][lane];
    low = __reduce_add_sync(kAll, c.x);
    high = __reduce_add_sync(kAll, c.y);
    const int reach_one = static_cast<int>(low & 0xffffu), reach_two = static_cast<int>(low >> 16);
    const int reach_three = static_cast<int>(high);
    int reached = 0;
    if (reach_three >= k) {
      threshold = three;
      reached = reach_three;
    } else if (reach_two >= k) {
      threshold = two;
      reached = reach_two;
    } else if (reach_one >= k) {
      threshold = one;
      reached = reach_one;
    }
    if (reached == k) break;  // the same in all threads
  }
  return threshold;
}

/// Writes the block's k largest keys to selected[kK], unordered; zeros where there are fewer.
template <int kBlock, int kBits, int kK, int kItems, class Word>
__device__ __forceinline__ void select_largest(const Word (&keys)[kItems], Word* selected, int* count) {
  __syncthreads();
  for (int i = threadIdx.x; i < kK; i += kBlock) selected[i] = 0;
  if (threadIdx.x == 0) *count = 0;
  const Word threshold = kth_largest<kBlock, kBits>(keys, kK);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (keys[i] >= threshold && keys[i] != 0) {
      const int at = atomicAdd(count, 1);
      if (at < kK) selected[at] = keys[i];
    }
  }
  __syncthreads();
}

template <class T, int kVocab, int kK, bool kPenalty, bool kMinP, int kBlock, int kBlocksPerRow,
          int kListOffset>
__global__ void __launch_bounds__(kBlock)
    top_k_vectorized(typename RowScores<T, kVocab, kPenalty>::Arguments args) {
  using Scores = RowScores<T, kVocab, kPenalty>;
  using Key = SortKey<typename Scores::Score, kVocab>;
  using Word = typename Key::Word;
  constexpr int kVec = vec_width<T>(kVocab), kVectors = kVocab / kVec;
  constexpr int kSteps = ceil_div(kVectors, kBlock * kBlocksPerRow);
  static_assert(32 % kVec == 0, "a vector lies in one word of the seen tokens");
  __shared__ Word selected[ceil_div(kK, 4) * 4];  // whole vectors of 16 bytes, as the compiler reads it
  __shared__ Word sorted[kK];
  __shared__ int count;
  const int row = blockIdx.y;
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(row) * kVocab;
  pdl_launch_dependents();
  pdl_wait();
  const Scores scores(args, row);

  {
    Vec<T, kVec> x[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int vector = (s * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (vector < kVectors) x[s] = load_vec<kVec>(logits + vector * kVec);
    }
    Word keys[kSteps * kVec];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int vector = (s * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      const unsigned word = vector < kVectors ? scores.seen_word(vector * kVec) : 0u;
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        keys[s * kVec + i] = vector < kVectors
                                 ? Key::make(scores(x[s][i], vector * kVec + i, word), vector * kVec + i)
                                 : Word{0};
    }
    select_largest<kBlock, Key::kBits, kK>(keys, selected, &count);
  }

  if constexpr (kBlocksPerRow > 1) {
    constexpr int kCandidates = kBlocksPerRow * kK, kItems = ceil_div(kCandidates, kBlock);
    int* arrivals = static_cast<int*>(args.workspace) + row;
    Word* list = reinterpret_cast<Word*>(static_cast<char*>(args.workspace) + kListOffset) +
                 static_cast<long long>(row) * kCandidates;
    for (int i = threadIdx.x; i < kK; i += kBlock) list[static_cast<int>(blockIdx.x) * kK + i] = selected[i];
    __threadfence();
    __syncthreads();
    __shared__ int arrival;
    if (threadIdx.x == 0) arrival = atomicAdd(arrivals, 1);
    __syncthreads();
    if (arrival != kBlocksPerRow - 1) return;
    __threadfence();
    if (threadIdx.x == 0) *arrivals = 0;
    Word keys[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int at = i * kBlock + static_cast<int>(threadIdx.x);
      keys[i] = at < kCandidates ? __ldcg(list + at) : Word{0};
    }
    select_largest<kBlock, Key::kBits, kK>(keys, selected, &count);
  }

  // Sort by rank: keys are distinct, but for zeros.
  for (int i = threadIdx.x; i < kK; i += kBlock) {
    const Word key = selected[i];
    int rank = 0;
#pragma unroll 8
    for (int j = 0; j < kK; ++j) rank += selected[j] > key || (selected[j] == key && j < i) ? 1 : 0;
    sorted[rank] = key;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int id = sample_sorted<Key, kK, kMinP>(sorted, args, row);
    if (threadIdx.x == 0) {
      args.ids[row] = id;
      scores.add_fed_token();
    }
  }
}

}  // namespace warptune
