// Top-k/top-p sampling of any k by radix search, without a list of candidates.
// Grid: one block per row, which reads the row once per bit of a sort key (sort_key.cuh).
// Search: the k-th largest key by the count of the keys above, the end of the prefix of probability p and the
// sampled
//   token by the sum of their weights. Each is the largest key at which a monotone sum reaches its target.
// Sync: one block reduction per bit; its order is fixed, so equal rows give equal tokens.
// Wins: where the k candidates do not fit the shared memory of a block.
#include "kernels/common/pdl.cuh"
#include "kernels/common/philox.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/top_k/scores.cuh"

namespace warptune {

/// The sort keys of a row, and sums over them. All threads of the block call all functions.
template <class T, int kVocab, bool kPenalty, int kBlock>
struct RowKeys {
  using Scores = RowScores<T, kVocab, kPenalty>;
  using Key = SortKey<typename Scores::Score, kVocab>;
  using Word = typename Key::Word;

  const T* logits;
  const Scores& scores;
  float max_logit = 0, scale = 0, least = 0;  // a weight below `least` counts as 0

  __device__ __forceinline__ Word key(int i) const {
    return Key::make(scores(logits[i], i, scores.seen_word(i)), i);
  }
  __device__ __forceinline__ Word largest() const {
    Word best = 0;
    for (int i = threadIdx.x; i < kVocab; i += kBlock) best = max_key(best, key(i));
    return block_max_key<kBlock>(best);
  }
  /// How many keys reach a threshold, at most 2^24.
  __device__ __forceinline__ float count(Word threshold) const {
    float sum = 0;
    for (int i = threadIdx.x; i < kVocab; i += kBlock) sum += key(i) >= threshold ? 1.0f : 0.0f;
    return block_reduce<Sum, kBlock>(sum);
  }
  /// The weights of the keys that reach a threshold.
  __device__ __forceinline__ float mass(Word threshold) const {
    float sum = 0;
    for (int i = threadIdx.x; i < kVocab; i += kBlock) {
      const Word k = key(i);
      if (k < threshold) continue;
      const float weight = expf((Key::value(k) - max_logit) * scale);
      sum += weight >= least ? weight : 0.0f;
    }
    return block_reduce<Sum, kBlock>(sum);
  }
  /// The largest threshold, at least `low`, that `reaches` holds for. It holds for `low`, and for no
  /// threshold above one that it does not hold for.
  template <class Reaches>
  __device__ __forceinline__ static Word search(Word low, const Reaches& reaches) {
    Word threshold = 0;
    for (int shift = Key::kBits - 1; shift >= 0; --shift) {
      const Word next = threshold | Word{1} << shift;
      if (next <= low || reaches(next)) threshold = next;
    }
    return threshold > low ? threshold : low;
  }
};

template <class T, int kVocab, int kK, bool kPenalty, bool kMinP, int kBlock>
__global__ void __launch_bounds__(kBlock)
    top_k_radix_search(typename RowScores<T, kVocab, kPenalty>::Arguments args) {
  using Keys = RowKeys<T, kVocab, kPenalty, kBlock>;
  using Word = typename Keys::Word;
  const int row = blockIdx.x;
  pdl_wait();
  const typename Keys::Scores scores(args, row);
  Keys keys{static_cast<const T*>(args.logits) + static_cast<long long>(row) * kVocab, scores};
  Word sampled = keys.largest();
  keys.max_logit = Keys::Key::value(sampled);
  keys.scale = 1.0f / args.temperature;
  if (args.temperature > 0 && isfinite(keys.max_logit)) {
    Word last = 0;  // of the candidates, in descending order
    if constexpr (kK < kVocab)
      last = Keys::search(Word{0}, [&](Word threshold) { return keys.count(threshold) >= kK; });
    if (args.p < 1) {
      const float target = args.p * keys.mass(last);
      last = Keys::search(last, [&](Word threshold) { return keys.mass(threshold) >= target; });
    }
    if constexpr (kMinP) keys.least = args.min_p;
    const float target =
        philox_uniform(args.rng[0], args.rng[1], static_cast<unsigned>(row)) * keys.mass(last);
    const Word found = Keys::search(last, [&](Word threshold) { return keys.mass(threshold) > target; });
    if (found != 0) sampled = found;
  }
  __syncthreads();  // every thread has read `ids` and `seen`
  if (threadIdx.x == 0) {
    args.ids[row] = Keys::Key::index(sampled);
    scores.add_fed_token();
  }
}

}  // namespace warptune
