#pragma once
// The position of a producer or a consumer in a multistage pipeline with a full and an empty mbarrier per
// stage. A consumer waits for the full barrier with `phase`, a producer for the empty one with `phase ^ 1`:
// its first wait for each stage returns at once.

namespace warptune {

/// The index of the next stage and its phase (parity), as CUTLASS's PipelineState.
template <int kStages>
struct PipelineState {
  int index = 0;
  unsigned phase = 0;
  __device__ __forceinline__ void advance() {
    if (++index == kStages) index = 0, phase ^= 1;
  }
};

}  // namespace warptune
