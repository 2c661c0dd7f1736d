// Naive argmax: the readable baseline.
// Grid: one block per row; a thread reads elements one by one and keeps its largest sort key
//   (sort_key.cuh).
// Sync: one block reduction.
#include "kernels/argmax/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/sort_key.cuh"

namespace warptune {

template <class T, int kVocab, int kBlock>
__global__ void __launch_bounds__(kBlock) argmax_naive(ArgmaxArgs args) {
  using Key = SortKey<T, kVocab>;
  pdl_wait();
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(blockIdx.x) * kVocab;
  typename Key::Word best = 0;
  for (int i = threadIdx.x; i < kVocab; i += kBlock) best = max_key(best, Key::make(logits[i], i));
  best = block_max_key<kBlock>(best);
  if (threadIdx.x == 0) args.ids[blockIdx.x] = Key::index(best);
}

}  // namespace warptune
