#pragma once
#include <memory>

#include "harness/device/device.h"

namespace warptune {

/// CUDA device number `ordinal`. Throws on CUDA errors.
std::unique_ptr<Device> make_cuda_device(int ordinal);

}  // namespace warptune
