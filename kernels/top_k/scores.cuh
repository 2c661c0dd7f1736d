#pragma once
// What sampling compares: the logits themselves, or in fp32 after the repetition penalty.
#include "kernels/common/numeric.cuh"
#include "kernels/top_k/args.h"

namespace warptune {

/// The scores of one row. All threads construct it after pdl_wait(), before any thread writes ids or `seen`.
template <class T, int kVocab, bool kPenalty>
class RowScores {
 public:
  using Score = T;
  using Arguments = TopKArgs;
  __device__ __forceinline__ RowScores(const TopKArgs&, int) {}
  __device__ __forceinline__ unsigned seen_word(int) const { return 0; }
  __device__ __forceinline__ T operator()(T logit, int, unsigned) const { return logit; }
  __device__ __forceinline__ void add_fed_token() const {}
};

template <class T, int kVocab>
class RowScores<T, kVocab, true> {
 public:
  using Score = float;
  using Arguments = PenalizedTopKArgs;
  __device__ __forceinline__ RowScores(const PenalizedTopKArgs& args, int row)
      : seen_(args.seen + static_cast<long long>(row) * ceil_div(kVocab, 32)),
        fed_(args.ids[row]),
        penalty_(args.repetition_penalty) {}
  /// The 32 tokens around `token`, one bit each.
  __device__ __forceinline__ unsigned seen_word(int token) const { return seen_[token / 32]; }
  /// `word`: that of the token. The token fed last is compared, because its bit is set only at the end.
  __device__ __forceinline__ float operator()(T logit, int token, unsigned word) const {
    const float x = to_float(logit);
    const bool held = (word >> token % 32 & 1u) != 0 || token == fed_;
    return !held ? x : x < 0 ? x * penalty_ : __fdiv_rn(x, penalty_);
  }
  /// One thread calls it, after all blocks of the row have read `seen`.
  __device__ __forceinline__ void add_fed_token() const {
    if (static_cast<unsigned>(fed_) < static_cast<unsigned>(kVocab)) seen_[fed_ / 32] |= 1u << fed_ % 32;
  }

 private:
  unsigned* seen_;
  int fed_;
  float penalty_;
};

}  // namespace warptune
