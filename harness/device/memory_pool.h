#pragma once
// Memory pools of devices: their interface, and the pool without a cache.
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace warptune {

struct PoolStats {
  std::size_t in_use = 0;    // bytes allocated, with the pool's rounding
  std::size_t reserved = 0;  // bytes that the pool holds from the device
  std::size_t requests = 0;  // calls of allocate
  std::size_t misses = 0;    // requests that reached the device
};

/// Pools are thread-safe. A pool may reuse released memory at once: at its release no work on it may be in
/// flight, except on the stream of its next user.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  /// 256-byte aligned memory. Throws ResourceError with the requested and the free size.
  virtual void* allocate(std::size_t bytes) = 0;
  /// Throws std::logic_error for memory that is not this pool's, or is already released.
  virtual void release(void* data) = 0;
  /// Gives cached memory back to the device.
  virtual void trim() = 0;
  virtual PoolStats stats() const = 0;
};

/// The device that a pool takes memory from. A pool calls it from one thread at a time.
class Upstream {
 public:
  virtual ~Upstream() = default;
  /// 256-byte aligned memory, or null where too little is left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  virtual std::size_t free_bytes() const = 0;
  /// Free bytes that it keeps from the device; trim() returns them.
  virtual std::size_t kept_bytes() const { return 0; }
  virtual void trim() {}
};

inline constexpr std::size_t kPoolAlignment = 256;

/// `bytes` rounded up to a multiple of `unit`; no allocation is empty. Throws ResourceError on overflow.
std::size_t round_up(std::size_t bytes, std::size_t unit);

/// Memory from upstream; calls `trim` and tries again where there is none. Throws ResourceError with the
/// requested and the free MiB.
void* allocate_or_trim(Upstream& upstream, std::size_t bytes, const std::function<void()>& trim);

/// A pool without a cache: every request goes upstream.
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

/// Host memory, passed through without a cache.
std::unique_ptr<MemoryPool> make_host_pool();

}  // namespace warptune
