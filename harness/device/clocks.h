#pragma once
// NVML, loaded at run time: clocks, temperature, power, throttle reasons; NaN and empty without the library.
#include <string>

#include "harness/device/device.h"

namespace warptune {

class Nvml {
 public:
  explicit Nvml(int cuda_ordinal);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  Clocks read() const;
  Clocks read_quick() const;  // clock and reasons only
  std::string driver_version() const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace warptune
