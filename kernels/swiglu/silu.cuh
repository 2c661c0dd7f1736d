#pragma once
// The activation of SwiGLU.

namespace warptune {

/// x * sigmoid(x), by the fast exponential and division.
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

}  // namespace warptune
