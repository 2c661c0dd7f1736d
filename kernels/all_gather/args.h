#pragma once
// y[t, r * columns + i] = x[t, i] of rank r.

namespace warptune {

struct AllGatherArgs {
  const void* x;  // [tokens, columns], dtype
  void* y;        // [tokens, ranks * columns], dtype
  int tokens;
};

}  // namespace warptune
