#include "harness/llama/page_allocator.h"

#include <numeric>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/random.h"

namespace warptune {

/// Shuffled, as a pool is that has served for a while: nothing may count on neighbours.
PageAllocator::PageAllocator(int pages) : free_(static_cast<std::size_t>(pages)) {
  std::iota(free_.begin(), free_.end(), 0);
  for (std::size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random_bits(1, i) % i]);
}

int PageAllocator::take() {
  if (free_.empty()) throw ResourceError("the KV cache has no free page");
  const int page = free_.back();
  free_.pop_back();
  return page;
}

}  // namespace warptune
