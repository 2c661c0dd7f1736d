// Vectorized argmax with a last-block reduction.
// Grid: (kBlocksPerRow, rows); the blocks of a row read it in vectors of up to 16 bytes, round-robin.
// Loads: kUnroll in flight per thread.
// Combine: a block writes its largest sort key to the row's slot with atomicMax; the last block writes the
//   id and resets slot and counter.
// Workspace per row: unsigned long long best; unsigned long long arrivals.
#include "kernels/argmax/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kVocab, int kBlock, int kBlocksPerRow, int kUnroll>
__global__ void __launch_bounds__(kBlock) argmax_vectorized(ArgmaxArgs args) {
  using Key = SortKey<T, kVocab>;
  using Word = typename Key::Word;
  constexpr int kVec = vec_width<T>(kVocab), kVectors = kVocab / kVec;
  constexpr int kSteps = ceil_div(kVectors, kBlock * kBlocksPerRow);
  constexpr int kInFlight = min_of(kSteps, kUnroll);
  const int row = blockIdx.y;
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(row) * kVocab;
  pdl_launch_dependents();
  pdl_wait();

  Word best = 0;
  for (int step = 0; step < kSteps; step += kInFlight) {
    Vec<T, kVec> x[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int vector = ((step + j) * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (vector < kVectors) x[j] = load_vec<kVec>(logits + vector * kVec);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int vector = ((step + j) * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (vector < kVectors) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) best = max_key(best, Key::make(x[j][i], vector * kVec + i));
      }
    }
  }
  best = block_max_key<kBlock>(best);
  if (threadIdx.x != 0) return;
  if constexpr (kBlocksPerRow > 1) {
    unsigned long long* slot = static_cast<unsigned long long*>(args.workspace) + 2 * row;
    atomicMax(slot, static_cast<unsigned long long>(best));
    __threadfence();
    if (atomicAdd(slot + 1, 1ull) != kBlocksPerRow - 1) return;
    __threadfence();
    best = static_cast<Word>(atomicExch(slot, 0ull));
    slot[1] = 0;
  }
  args.ids[row] = Key::index(best);
}

}  // namespace warptune
