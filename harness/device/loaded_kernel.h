#pragma once
// A kernel of a cubin, loaded. The CUDA runtime loads cubins from 12.8 on; before that the driver does, which
// is looked up at run time.
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

namespace warptune {

/// Owns the library that its cubin became. Move-only.
class LoadedKernel {
 public:
  LoadedKernel(const std::string& cubin, const std::string& entry);
  LoadedKernel(LoadedKernel&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), kernel_(other.kernel_) {}
  LoadedKernel& operator=(LoadedKernel&&) = delete;
  ~LoadedKernel();

  void allow_shared_bytes(int bytes) const;  // dynamic, per block
  void allow_large_clusters() const;         // clusters of more than 8 blocks
  /// The shared memory of an SM that blocks of the kernel use together, in percent; the rest is L1. The
  /// driver rounds up to a size that the SM has, and takes more where a block needs it.
  void prefer_shared_carveout(int percent) const;
  /// Clusters of this launch that the device runs at the same time; the grid does not matter.
  int max_active_clusters(const cudaLaunchConfig_t& config) const;
  /// The address of constant memory. Throws std::runtime_error where the cubin has none of this name.
  void* constant(const std::string& symbol) const;
  void launch(const cudaLaunchConfig_t& config, void** arguments) const;

 private:
  void* library_ = nullptr;  // cudaLibrary_t or CUlibrary
  void* kernel_ = nullptr;   // cudaKernel_t or CUfunction
};

}  // namespace warptune
