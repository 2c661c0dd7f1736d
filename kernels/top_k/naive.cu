// Naive top-k/top-p sampling: the readable baseline.
// Grid: one block per row; k rounds, each of which reads the row for the largest sort key below the one
//   before; then one warp samples.
#include "kernels/common/pdl.cuh"
#include "kernels/top_k/sample.cuh"

namespace warptune {

template <class T, int kVocab, int kK, int kBlock>
__global__ void __launch_bounds__(kBlock) top_k_naive(TopKArgs args) {
  using Key = SortKey<T, kVocab>;
  using Word = typename Key::Word;
  __shared__ Word sorted[kK];
  pdl_wait();
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(blockIdx.x) * kVocab;
  Word last = ~Word{0};
  for (int j = 0; j < kK; ++j) {
    Word best = 0;
    for (int i = threadIdx.x; i < kVocab; i += kBlock) {
      const Word key = Key::make(logits[i], i);
      if (key < last) best = max_key(best, key);
    }
    last = block_max_key<kBlock>(best);
    if (threadIdx.x == 0) sorted[j] = last;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int id = sample_sorted<Key, kK>(sorted, args, blockIdx.x);
    if (threadIdx.x == 0) args.ids[blockIdx.x] = id;
  }
}

}  // namespace warptune
