// Idea: several blocks share a row. Each holds its keys in registers, finds the k-th largest by a search over
// the bits of the key, two at a time (counting costs no shared atomics, so equal logits do no harm), and
// leaves its k best in the workspace. The last block to arrive does the same with all that were left, sorts
// them by rank and draws.
// Workspace: int arrived[batch], then from `kListOffset` bytes keys [batch][kBlocksPerRow][kK].
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/top_k/sample.cuh"

namespace warptune {

/// The largest threshold that at least k of the block's keys reach; 0 where fewer than k are not 0. Called by
/// all threads; a barrier must lie between two calls.
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
    unsigned low = 0, high = 0;  // how many reach one (lower half), two (upper half); three
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

/// Leaves the block's k largest keys in chosen[kK], in no order; zeros where there are fewer.
template <int kBlock, int kBits, int kK, int kItems, class Word>
__device__ __forceinline__ void choose_largest(const Word (&keys)[kItems], Word* chosen, int* count) {
  __syncthreads();
  for (int i = threadIdx.x; i < kK; i += kBlock) chosen[i] = 0;
  if (threadIdx.x == 0) *count = 0;
  const Word threshold = kth_largest<kBlock, kBits>(keys, kK);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (keys[i] >= threshold && keys[i] != 0) {
      const int at = atomicAdd(count, 1);
      if (at < kK) chosen[at] = keys[i];
    }
  }
  __syncthreads();
}

template <class T, int kVocab, int kK, int kBlock, int kBlocksPerRow, int kListOffset>
__global__ void __launch_bounds__(kBlock) top_k_vectorized(TopKArgs args) {
  using Key = SortKey<T, kVocab>;
  using Word = typename Key::Word;
  constexpr int kVec = vec_width<T>(kVocab), kPieces = kVocab / kVec;
  constexpr int kSteps = ceil_div(kPieces, kBlock * kBlocksPerRow);
  __shared__ Word chosen[ceil_div(kK, 4) * 4];  // whole 16-byte pieces: the compiler reads it so
  __shared__ Word sorted[kK];
  __shared__ int count;
  const int row = blockIdx.y;
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(row) * kVocab;
  pdl_launch_dependents();
  pdl_wait();

  {
    Vec<T, kVec> x[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int piece = (s * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (piece < kPieces) x[s] = load_vec<kVec>(logits + piece * kVec);
    }
    Word keys[kSteps * kVec];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int piece = (s * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        keys[s * kVec + i] = piece < kPieces ? Key::make(x[s][i], piece * kVec + i) : Word{0};
    }
    choose_largest<kBlock, Key::kBits, kK>(keys, chosen, &count);
  }

  if constexpr (kBlocksPerRow > 1) {
    constexpr int kListed = kBlocksPerRow * kK, kItems = ceil_div(kListed, kBlock);
    int* arrived = static_cast<int*>(args.workspace) + row;
    Word* list = reinterpret_cast<Word*>(static_cast<char*>(args.workspace) + kListOffset) +
                 static_cast<long long>(row) * kListed;
    for (int i = threadIdx.x; i < kK; i += kBlock) list[static_cast<int>(blockIdx.x) * kK + i] = chosen[i];
    __threadfence();
    __syncthreads();
    __shared__ int before;
    if (threadIdx.x == 0) before = atomicAdd(arrived, 1);
    __syncthreads();
    if (before != kBlocksPerRow - 1) return;
    __threadfence();
    if (threadIdx.x == 0) *arrived = 0;
    Word keys[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int at = i * kBlock + static_cast<int>(threadIdx.x);
      keys[i] = at < kListed ? __ldcg(list + at) : Word{0};
    }
    choose_largest<kBlock, Key::kBits, kK>(keys, chosen, &count);
  }

  for (int i = threadIdx.x; i < kK; i += kBlock) {
    const Word own = chosen[i];
    int rank = 0;
#pragma unroll 8
    for (int j = 0; j < kK; ++j) rank += chosen[j] > own || (chosen[j] == own && j < i) ? 1 : 0;
    sorted[rank] = own;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int id = sample_sorted<Key, kK>(sorted, args, row);
    if (threadIdx.x == 0) args.ids[row] = id;
  }
}

}  // namespace warptune
