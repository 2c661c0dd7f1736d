#pragma once
// Which positions RoPE rotates with angles that fp32 arithmetic reduces exactly.

namespace warptune {

/// Kernels for longer sequences reduce angles in fp64 (kernels/common/rope.cuh).
inline constexpr int kNearPositions = 1 << 17;

}  // namespace warptune
