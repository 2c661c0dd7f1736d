#pragma once
// Tensor maps as the driver encodes them for the hardware that copies boxes of tensors (sm_90).
#include "harness/core/variant.h"

namespace warptune {

/// The bits of a CUtensorMap: a kernel's `const __grid_constant__ TensorMap`.
struct alignas(64) EncodedTensorMap {
  unsigned char bits[128];
};

/// Throws ResourceError where the driver knows no tensor maps, InputError where it rejects this one.
EncodedTensorMap encode_tensor_map(const TensorMapSpec& spec);

}  // namespace warptune
