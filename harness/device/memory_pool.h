#pragma once
// Where device memory comes from, behind one interface.
#include <cstddef>
#include <memory>

namespace warptune {

struct PoolStats {
  std::size_t in_use = 0;    // bytes handed out, rounded as the pool rounds
  std::size_t reserved = 0;  // bytes held from the device
  std::size_t requests = 0;  // allocations asked for
  std::size_t misses = 0;    // allocations that went to the device
};

class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  /// 256-byte aligned memory. Throws ResourceError that says what was wanted and what is free.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data) = 0;
  /// Gives cached memory back to the device.
  virtual void trim() = 0;
  virtual PoolStats stats() const = 0;
};

}  // namespace warptune
