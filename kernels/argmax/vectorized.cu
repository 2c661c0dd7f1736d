// Idea: several blocks share a row and read it in 16-byte pieces, kUnroll loads of a thread in flight at
// once. Each block leaves its best key in the row's slot by an atomic maximum; the last one to arrive writes
// the id and puts slot and counter back to zero.
//
// Workspace per row: unsigned long long best; unsigned long long arrived.
#include "kernels/argmax/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kVocab, int kBlock, int kBlocksPerRow, int kUnroll>
__global__ void __launch_bounds__(kBlock) argmax_vectorized(ArgmaxArgs args) {
  using Key = SortKey<T, kVocab>;
  using Word = typename Key::Word;
  constexpr int kVec = vec_width<T>(kVocab), kPieces = kVocab / kVec;
  constexpr int kSteps = ceil_div(kPieces, kBlock * kBlocksPerRow);
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
      const int piece = ((step + j) * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (piece < kPieces) x[j] = load_vec<kVec>(logits + piece * kVec);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const int piece = ((step + j) * kBlocksPerRow + static_cast<int>(blockIdx.x)) * kBlock + threadIdx.x;
      if (piece < kPieces) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) best = max_key(best, Key::make(x[j][i], piece * kVec + i));
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
