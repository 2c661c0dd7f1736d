#if WARPTUNE_HAS_CUDA
#include "harness/device/pinned_staging.h"

#include <array>

#include "harness/device/cuda_check.h"

namespace warptune {
namespace {

/// A page-locked buffer, and the event after the last copy from it.
struct PinnedBuffer {
  explicit PinnedBuffer(std::size_t size) : bytes(size) {
    WARPTUNE_CUDA_CHECK(cudaMallocHost(&data, size));
    try {
      WARPTUNE_CUDA_CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    } catch (...) {
      cudaFreeHost(data);
      throw;
    }
  }
  ~PinnedBuffer() {
    cudaEventSynchronize(copied);  // the copy engine may still read it
    cudaEventDestroy(copied);
    cudaFreeHost(data);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  void* data = nullptr;
  std::size_t bytes = 0;
  cudaEvent_t copied = nullptr;
};

class PinnedStaging : public UploadStaging {
 public:
  PinnedStaging(std::size_t bytes, cudaStream_t stream)
      : buffers_{PinnedBuffer(bytes), PinnedBuffer(bytes)}, stream_(stream) {}

  std::span<std::byte> next() override {
    turn_ = 1 - turn_;
    PinnedBuffer& buffer = buffers_[turn_];
    WARPTUNE_CUDA_CHECK(cudaEventSynchronize(buffer.copied));  // returns at once before its first copy
    return {static_cast<std::byte*>(buffer.data), buffer.bytes};
  }
  void send(void* to, std::size_t bytes) override {
    PinnedBuffer& buffer = buffers_[turn_];
    WARPTUNE_CUDA_CHECK(cudaMemcpyAsync(to, buffer.data, bytes, cudaMemcpyHostToDevice, stream_));
    WARPTUNE_CUDA_CHECK(cudaEventRecord(buffer.copied, stream_));
  }

 private:
  std::array<PinnedBuffer, 2> buffers_;
  cudaStream_t stream_;
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<UploadStaging> make_pinned_staging(std::size_t bytes, cudaStream_t stream) {
  try {
    return std::make_unique<PinnedStaging>(bytes, stream);
  } catch (const CudaError& e) {
    if (e.code != cudaErrorMemoryAllocation && e.code != cudaErrorNotSupported) throw;
    return nullptr;
  }
}

}  // namespace warptune
#endif
