#pragma once
// y = the sum of the x of all ranks, added in the order of ranks in fp32, rounded once: the same bits on
// every rank.

namespace warptune {

struct AllReduceArgs {
  const void* x;  // [elements], dtype: what this rank adds
  void* y;        // [elements], dtype; may be the same memory as x
};

}  // namespace warptune
