#pragma once
// Hands out the pages of a pool, in no order, and takes them back.
#include <vector>

namespace warptune {

class PageAllocator {
 public:
  explicit PageAllocator(int pages);
  /// Throws ResourceError where no page is free.
  int take();
  void give_back(int page) { free_.push_back(page); }
  int free() const { return static_cast<int>(free_.size()); }

 private:
  std::vector<int> free_;
};

}  // namespace warptune
