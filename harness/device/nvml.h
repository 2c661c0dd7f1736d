#pragma once
// NVML, loaded at run time: the program starts where no driver is.
#include <dlfcn.h>

#include <string>

#include "harness/device/device.h"

namespace warptune {

class NvmlLibrary {
 public:
  NvmlLibrary();
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  /// Found and initialized.
  bool ready() const { return ready_; }
  /// An entry point with the C types of nvml.h; null where this driver has none, or no library is loaded.
  template <class F>
  F* symbol(const char* name) const {
    return ready_ ? reinterpret_cast<F*>(dlsym(library_, name)) : nullptr;
  }
  /// What NVML says about a return code.
  std::string text_of(int code) const;

 private:
  void* library_ = nullptr;
  bool ready_ = false;
};

/// Clocks, temperature, power and throttle reasons of a GPU; NaN and empty without NVML.
class Nvml {
 public:
  explicit Nvml(int cuda_ordinal);
  Clocks read() const;
  Clocks read_quick() const;  // clocks and reasons only
  double energy_j() const;    // since the driver was loaded; NaN before Volta
  std::string driver_version() const;

 private:
  NvmlLibrary library_;
  void* device_ = nullptr;
};

}  // namespace warptune
