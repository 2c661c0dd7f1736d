#include "harness/device/memory_pool.h"

#include <unistd.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "harness/core/error.h"

namespace warptune {

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  if (bytes > std::numeric_limits<std::size_t>::max() - unit)
    throw ResourceError("{} MiB of memory exceed the address space", bytes >> 20);
  return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
}

void* allocate_or_trim(Upstream& upstream, std::size_t bytes, const std::function<void()>& trim) {
  if (void* data = upstream.allocate(bytes)) return data;
  trim();
  if (void* data = upstream.allocate(bytes)) return data;
  constexpr double kMiB = 1 << 20;
  throw ResourceError("out of memory: {:.1f} MiB are needed, {:.1f} MiB are free",
                      static_cast<double>(bytes) / kMiB, static_cast<double>(upstream.free_bytes()) / kMiB);
}

PassThroughPool::~PassThroughPool() {
  for (const auto& [data, bytes] : live_) upstream_->free(data);
}

void* PassThroughPool::allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kPoolAlignment);
  const std::lock_guard lock(mutex_);
  ++requests_;
  void* data = allocate_or_trim(*upstream_, rounded, [this] { upstream_->trim(); });
  live_.emplace(data, rounded);
  in_use_ += rounded;
  return data;
}

void PassThroughPool::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(data);
  if (found == live_.end()) throw std::logic_error("released memory is not of this pool, or released twice");
  in_use_ -= found->second;
  live_.erase(found);
  upstream_->free(data);
}

void PassThroughPool::trim() {
  const std::lock_guard lock(mutex_);
  upstream_->trim();
}

PoolStats PassThroughPool::stats() const {
  const std::lock_guard lock(mutex_);
  return {.in_use = in_use_,
          .reserved = in_use_ + upstream_->kept_bytes(),
          .requests = requests_,
          .misses = requests_};
}

namespace {

class HostUpstream : public Upstream {
 public:
  void* allocate(std::size_t bytes) override { return ::operator new(bytes, kAlignment, std::nothrow); }
  void free(void* data) noexcept override { ::operator delete(data, kAlignment); }
  std::size_t free_bytes() const override {
    return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
           static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  }

 private:
  static constexpr std::align_val_t kAlignment{kPoolAlignment};
};

}  // namespace

std::unique_ptr<MemoryPool> make_host_pool() {
  return std::make_unique<PassThroughPool>(std::make_unique<HostUpstream>());
}

}  // namespace warptune
