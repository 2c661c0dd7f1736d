// Naive top-k/top-p sampling: the readable baseline.
// Grid: one block per row; k rounds. Each reads the row for the largest sort key below the one
//   before; then one warp samples.
#include "kernels/common/pdl.cuh"
#include "kernels/top_k/sample.cuh"
#include "kernels/top_k/scores.cuh"

namespace warptune {

template <class T, int kVocab, int kK, bool kPenalty, bool kMinP, int kBlock>
__global__ void __launch_bounds__(kBlock)
    top_k_naive(typename RowScores<T, kVocab, kPenalty>::Arguments args) {
  using Scores = RowScores<T, kVocab, kPenalty>;
  using Key = SortKey<typename Scores::Score, kVocab>;
  using Word = typename Key::Word;
  __shared__ Word sorted[kK];
  pdl_wait();
  const T* logits = static_cast<const T*>(args.logits) + static_cast<long long>(blockIdx.x) * kVocab;
  const Scores scores(args, blockIdx.x);
  Word last = ~Word{0};
  for (int j = 0; j < kK; ++j) {
    Word best = 0;
    for (int i = threadIdx.x; i < kVocab; i += kBlock) {
      const Word key = Key::make(scores(logits[i], i, scores.seen_word(i)), i);
      if (key < last) best = max_key(best, key);
    }
    last = block_max_key<kBlock>(best);
    if (threadIdx.x == 0) sorted[j] = last;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int id = sample_sorted<Key, kK, kMinP>(sorted, args, blockIdx.x);
    if (threadIdx.x == 0) {
      args.ids[blockIdx.x] = id;
      scores.add_fed_token();
    }
  }
}

}  // namespace warptune
