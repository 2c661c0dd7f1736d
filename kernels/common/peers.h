#pragma once
// The workspaces of all ranks, as kernels that exchange data between GPUs see them.

namespace warptune {

struct Peers {
  void* memory[8];  // memory[r]: the workspace of rank r, mapped on this GPU (own one included); zeroed
                    // before the first launch
  int rank, ranks;
};

}  // namespace warptune
