#pragma once
// y = the sum of x over all ranks, added in fp32 in the order of ranks.

namespace warptune {

struct AllReduceArgs {
  const void* x;  // dtype
  void* y;        // dtype; may be the same memory as x
};

}  // namespace warptune
