#pragma once
// Staging of uploads: the host fills one buffer while the device copies from another.
#include <cstddef>
#include <span>

namespace warptune {

/// Page-locked host buffers, used alternately. The copy engine reads them at the rate of the bus, without the
/// driver's own copy of pageable memory, while the host fills the next one.
class UploadStaging {
 public:
  virtual ~UploadStaging() = default;
  /// The buffer to fill next. Waits until the last copy from it has ended.
  virtual std::span<std::byte> next() = 0;
  /// Enqueues the copy of the first `bytes` of that buffer to the device; the host goes on.
  virtual void send(void* to, std::size_t bytes) = 0;
};

}  // namespace warptune
