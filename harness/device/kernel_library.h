#pragma once
// A loaded cubin.
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

namespace warptune {

/// Owns a CUDA library of one cubin. Move-only.
class KernelLibrary {
 public:
  explicit KernelLibrary(const std::string& cubin);
  KernelLibrary(KernelLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  KernelLibrary& operator=(KernelLibrary&&) = delete;
  ~KernelLibrary();
  /// What the functions of the runtime that take a kernel's address take too.
  const void* kernel(const std::string& entry) const;

 private:
  void* handle_ = nullptr;  // a cudaLibrary_t, or a CUlibrary where the runtime has no libraries
};

}  // namespace warptune
