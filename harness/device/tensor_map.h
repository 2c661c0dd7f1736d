#pragma once
// Tensor maps as the driver encodes them for the TMA unit (sm_90).
#include "harness/core/variant.h"

namespace warptune {

/// The bits of a CUtensorMap: a kernel's `const __grid_constant__ TensorMap`.
struct alignas(64) EncodedTensorMap {
  unsigned char bits[128];
};

/// Throws ResourceError where the driver is too old for tensor maps, InputError where it rejects this one.
EncodedTensorMap encode_tensor_map(const TensorMapSpec& spec);

}  // namespace warptune
