#pragma once
// What a profiler started with "begin when told" records: the life of this object. Nothing without CUDA.
#include "harness/device/device.h"

namespace warptune {

class ProfilerRange {
 public:
  /// Waits for all work before, so that nothing else is recorded.
  explicit ProfilerRange(Device& device);
  /// Waits for the work inside.
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  Device& device_;
};

}  // namespace warptune
