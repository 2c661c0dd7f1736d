#pragma once
// The columns of all ranks side by side.

namespace warptune {

struct AllGatherArgs {
  const void* x;  // [tokens, columns], dtype: those of this rank
  void* y;        // [tokens, ranks * columns], dtype
  int tokens;
};

}  // namespace warptune
