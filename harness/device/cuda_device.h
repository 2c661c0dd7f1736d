#pragma once

#include "harness/device/device.h"

namespace warptune {

/// CUDA device number `ordinal`. Throws on CUDA errors.
OwnedDevice make_cuda_device(int ordinal);

}  // namespace warptune
