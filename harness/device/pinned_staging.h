#pragma once
// Two page-locked buffers that feed a CUDA stream.
#include <cuda_runtime_api.h>

#include <memory>

#include "harness/device/upload_staging.h"

namespace warptune {

/// nullptr where the buffers cannot be page-locked: uploads then copy from pageable memory.
std::unique_ptr<UploadStaging> make_pinned_staging(std::size_t bytes, cudaStream_t stream);

}  // namespace warptune
