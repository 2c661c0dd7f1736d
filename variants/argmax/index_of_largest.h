#pragma once
// The definition of argmax, for the op and for the epilogue of linear.
#include <cstdint>

namespace warptune {

/// The index of the largest of values[first, last), `first` < `last`; of equals, the lowest.
template <class T>
std::int64_t index_of_largest(const T* values, std::int64_t first, std::int64_t last) {
  std::int64_t best = first;
  for (std::int64_t i = first + 1; i < last; ++i)
    if (static_cast<float>(values[i]) > static_cast<float>(values[best])) best = i;
  return best;
}

}  // namespace warptune
