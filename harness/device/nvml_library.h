#pragma once
// NVML, loaded at run time: the program starts where no driver is.
#include <dlfcn.h>

#include <string>

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

}  // namespace warptune
