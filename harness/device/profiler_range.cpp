#include "harness/device/profiler_range.h"

#include <exception>
#if WARPTUNE_HAS_CUDA
#include <cuda_profiler_api.h>
#endif

namespace warptune {

ProfilerRange::ProfilerRange(Device& device) : device_(device) {
  device_.synchronize();
#if WARPTUNE_HAS_CUDA
  if (device_.facts().backend == Backend::cuda) cudaProfilerStart();
#endif
}

ProfilerRange::~ProfilerRange() {
  try {
    device_.synchronize();
  } catch (const std::exception&) {
    return;  // the owner's next call on the device throws the same error
  }
#if WARPTUNE_HAS_CUDA
  if (device_.facts().backend == Backend::cuda) cudaProfilerStop();
#endif
}

}  // namespace warptune
