#pragma once
// The order of logits, for argmax, top_k and the epilogue of linear.
#include <cstdint>

namespace warptune {

/// Whether a logit ranks above another. NaN ranks above every number, as in PyTorch; two NaN rank equal.
template <class T>
bool ranks_above(T a, T b) {
  return a > b || (a != a && b == b);
}

/// The index of the largest of values[first, last), `first` < `last`; of equals, the lowest.
template <class T>
std::int64_t index_of_largest(const T* values, std::int64_t first, std::int64_t last) {
  std::int64_t best = first;
  for (std::int64_t i = first + 1; i < last; ++i)
    if (ranks_above<float>(values[i], values[best])) best = i;
  return best;
}

}  // namespace warptune
