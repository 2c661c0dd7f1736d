#pragma once
// A pool without a cache: every request goes upstream.
#include <mutex>
#include <unordered_map>

#include "harness/device/memory_pool.h"

namespace warptune {

class PassThroughPool : public MemoryPool {
 public:
  explicit PassThroughPool(std::unique_ptr<Upstream> upstream) : upstream_(std::move(upstream)) {}
  ~PassThroughPool() override;
  PassThroughPool(const PassThroughPool&) = delete;
  PassThroughPool& operator=(const PassThroughPool&) = delete;
  void* allocate(std::size_t bytes) override;
  void release(void* data) override;
  void trim() override;
  PoolStats stats() const override;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<Upstream> upstream_;
  std::unordered_map<void*, std::size_t> live_;
  std::size_t in_use_ = 0, requests_ = 0;
};

}  // namespace warptune
