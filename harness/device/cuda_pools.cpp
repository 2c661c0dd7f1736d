#if WARPTUNE_HAS_CUDA
#include "harness/device/cuda_pools.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "harness/core/error.h"
#include "harness/device/caching_pool.h"
#include "harness/device/cuda_check.h"

namespace warptune {
namespace {

/// Makes a device the thread's current one, and restores the previous one at the end of the scope.
class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == ordinal)
      before_ = -1;
    else
      cudaSetDevice(ordinal);
  }
  ~OnDevice() {
    if (before_ >= 0) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = -1;
};

/// Null where there is no memory left; throws any other error.
void* null_if_out_of_memory(cudaError_t code, void* data, const char* call) {
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  cuda_check(code, call);
  return data;
}

class CudaUpstream : public Upstream {
 public:
  explicit CudaUpstream(int ordinal) : ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override {
    const OnDevice on(ordinal_);
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes);
    return null_if_out_of_memory(code, data, "cudaMalloc");
  }
  // Waits for the device's work. The next checked call reports a sticky error.
  void free(void* data) noexcept override {
    const OnDevice on(ordinal_);
    if (cudaFree(data) != cudaSuccess) cudaGetLastError();
  }
  std::size_t free_bytes() const override {
    const OnDevice on(ordinal_);
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }

 protected:
  const int ordinal_;
};

/// The stream-ordered allocator on a stream of its own. Each call synchronizes that stream, so that any
/// stream can use the memory.
class CudaAsyncUpstream : public CudaUpstream {
 public:
  explicit CudaAsyncUpstream(int ordinal) : CudaUpstream(ordinal) {
    const OnDevice on(ordinal);
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    WARPTUNE_CUDA_CHECK(cudaMemPoolCreate(&pool_, &properties));
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    WARPTUNE_CUDA_CHECK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
    WARPTUNE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaAsyncUpstream() override {
    const OnDevice on(ordinal_);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaMemPoolDestroy(pool_);
  }
  CudaAsyncUpstream(const CudaAsyncUpstream&) = delete;
  CudaAsyncUpstream& operator=(const CudaAsyncUpstream&) = delete;

  void* allocate(std::size_t bytes) override {
    const OnDevice on(ordinal_);
    void* data = nullptr;
    const cudaError_t code = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
    if (!null_if_out_of_memory(code, data, "cudaMallocFromPoolAsync")) return nullptr;
    WARPTUNE_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return data;
  }
  void free(void* data) noexcept override {
    const OnDevice on(ordinal_);
    if (cudaFreeAsync(data, stream_) != cudaSuccess) cudaGetLastError();
    cudaStreamSynchronize(stream_);
  }
  std::size_t kept_bytes() const override {
    const std::uint64_t reserved = attribute(cudaMemPoolAttrReservedMemCurrent);
    const std::uint64_t used = attribute(cudaMemPoolAttrUsedMemCurrent);
    return reserved > used ? reserved - used : 0;
  }
  void trim() override {
    const OnDevice on(ordinal_);
    WARPTUNE_CUDA_CHECK(cudaDeviceSynchronize());  // other streams may still use freed memory
    WARPTUNE_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
  }

 private:
  std::uint64_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t value = 0;
    return cudaMemPoolGetAttribute(pool_, which, &value) == cudaSuccess ? value : 0;
  }

  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

PoolKind parse_pool_kind(std::string_view name) {
  if (name == "caching") return PoolKind::caching;
  if (name == "cuda_async") return PoolKind::cuda_async;
  if (name == "cuda_plain") return PoolKind::cuda_plain;
  throw InputError("unknown memory pool '{}'; it must be caching, cuda_async or cuda_plain", name);
}

PoolKind default_pool_kind() {
  const char* name = std::getenv("WARPTUNE_POOL");
  return name ? parse_pool_kind(name) : PoolKind::caching;
}

std::unique_ptr<MemoryPool> make_cuda_pool(PoolKind kind, int ordinal) {
  switch (kind) {
    case PoolKind::cuda_async:
      return std::make_unique<PassThroughPool>(std::make_unique<CudaAsyncUpstream>(ordinal));
    case PoolKind::cuda_plain:
      return std::make_unique<PassThroughPool>(std::make_unique<CudaUpstream>(ordinal));
    case PoolKind::caching:
      break;
  }
  return std::make_unique<CachingPool>(std::make_unique<CudaUpstream>(ordinal));
}

}  // namespace warptune
#endif
