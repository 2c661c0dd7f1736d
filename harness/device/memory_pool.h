#pragma once
// Where device memory comes from, behind one interface.
#include <cstddef>
#include <functional>
#include <memory>

namespace warptune {

struct PoolStats {
  std::size_t in_use = 0;    // bytes handed out, rounded as the pool rounds
  std::size_t reserved = 0;  // bytes held from the device
  std::size_t requests = 0;  // allocations asked for
  std::size_t misses = 0;    // allocations that went to the device
};

/// All pools may be used from several threads. Released memory may be handed out again at once: whoever
/// releases has no work on it in flight, other than on the stream that its next user works on.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  /// 256-byte aligned memory. Throws ResourceError that says what was wanted and what is free.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Throws std::logic_error for memory that is not this pool's, or was released before.
  virtual void release(void* data) = 0;
  /// Gives cached memory back to the device.
  virtual void trim() = 0;
  virtual PoolStats stats() const = 0;
};

/// The device behind a pool. Not called from two threads at once by the same pool.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// 256-byte aligned memory, or null where there is no such amount left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  virtual std::size_t free_bytes() const = 0;
  /// What it keeps for itself beyond what it has handed out, and its return to the device.
  virtual std::size_t kept_bytes() const { return 0; }
  virtual void trim() {}
};

inline constexpr std::size_t kPoolAlignment = 256;

/// `bytes` rounded up to a multiple of `unit`; no allocation is empty. Throws ResourceError on overflow.
std::size_t round_up(std::size_t bytes, std::size_t unit);

/// Memory from upstream, or, where it has none, after `trim` at the second asking. Throws
/// ResourceError with the MiB wanted and free.
void* allocate_or_trim(Upstream& upstream, std::size_t bytes, const std::function<void()>& trim);

/// Host memory, passed through without a cache.
std::unique_ptr<MemoryPool> make_host_pool();

}  // namespace warptune
