#pragma once
// Marks the range that a profiler with "capture range: cudaProfilerApi" records: the lifetime of this object.
// Does nothing without CUDA.
#include "harness/device/device.h"

namespace warptune {

class ProfilerRange {
 public:
  /// Waits for all earlier work, so that the profiler does not record it.
  explicit ProfilerRange(Device& device);
  /// Waits for the work inside the range.
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  Device& device_;
};

}  // namespace warptune
