#pragma once
// A pool that keeps released memory: separate arenas for small and large requests, best fit, split blocks,
// coalescing of free neighbors, and a limit on the free memory of the small arena.
#include <map>
#include <mutex>
#include <set>

#include "harness/device/memory_pool.h"

namespace warptune {

/// The blocks of one size class. Memory comes from upstream in segments; a segment is split into contiguous
/// blocks. Sizes are multiples of kPoolAlignment. No locking.
class Arena {
 public:
  struct Limits {
    std::size_t segment;  // segments are multiples of this
    std::size_t keep;     // with more free bytes than this, a segment that becomes free is returned
  };
  Arena(Upstream& upstream, Limits limits) : upstream_(upstream), limits_(limits) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The smallest free block that holds `bytes`, split to that size; null where there is none.
  void* take(std::size_t bytes);
  /// Adds a free segment of at least `bytes`. Calls `trim` where upstream has no memory.
  void grow(std::size_t bytes, const std::function<void()>& trim);
  /// Frees a block. False where it is not this arena's. Throws std::logic_error where it is not in use.
  bool give_back(void* data);
  /// Returns every segment without blocks in use.
  void trim();

  std::size_t in_use() const { return reserved_ - free_bytes_; }
  std::size_t reserved() const { return reserved_; }

 private:
  struct Block {
    std::size_t bytes;
    std::byte* segment;  // the start of its segment
    bool free;
  };
  using Blocks = std::map<std::byte*, Block>;  // by address

  bool whole_segment(Blocks::const_iterator block) const;
  void add_free(Blocks::iterator block);
  void remove_free(Blocks::iterator block);
  void return_segment(Blocks::iterator block);

  Upstream& upstream_;
  Limits limits_;
  Blocks blocks_;
  std::set<std::pair<std::size_t, std::byte*>> free_;  // by size, then address
  std::map<std::byte*, std::size_t> segments_;
  std::size_t reserved_ = 0, free_bytes_ = 0;
};

struct CachingOptions {
  std::size_t small_limit = std::size_t{1} << 20;  // requests up to this come from the small arena
  std::size_t segment = std::size_t{2} << 20;      // the granularity of device memory
  std::size_t small_keep = std::size_t{32} << 20;  // free bytes that the small arena keeps
};

class CachingPool : public MemoryPool {
 public:
  explicit CachingPool(std::unique_ptr<Upstream> upstream, CachingOptions options = {});
  void* allocate(std::size_t bytes) override;
  void release(void* data) override;
  void trim() override;
  PoolStats stats() const override;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<Upstream> upstream_;
  std::size_t small_limit_;
  Arena small_, large_;
  std::size_t requests_ = 0, misses_ = 0;
};

}  // namespace warptune
