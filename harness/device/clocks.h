#pragma once
// Clocks, temperature, power and throttle reasons of a GPU, read through NVML; NaN and empty without it.
#include <string>

#include "harness/device/device.h"
#include "harness/device/nvml_library.h"

namespace warptune {

class Nvml {
 public:
  explicit Nvml(int cuda_ordinal);
  Clocks read() const;
  Clocks read_quick() const;  // clocks and reasons only
  std::string driver_version() const;

 private:
  NvmlLibrary library_;
  void* device_ = nullptr;
};

}  // namespace warptune
