#pragma once
// Headers of the C and C++ libraries for kernels from a file: NVRTC has none. They stand on libcu++
// (cuda/std).
#include "harness/core/variant.h"

namespace warptune {

/// By name: cstdint, type_traits, stdio.h, ... and cub/cub.cuh, without the parts of CUB that run on the
/// host.
CustomKernel::Files standard_headers();

}  // namespace warptune
