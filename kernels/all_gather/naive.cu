// Naive all-gather: the readable baseline.
// Grid: any; blocks of one index read and write the same elements on all ranks, one by one.
// Steps: a block copies its elements to its workspace, meets the blocks of its index on the other ranks, and
//   reads the elements of all ranks from their workspaces.
// Sync: one barrier between GPUs (peer_barrier.cuh).
// Workspace: peer_barrier.cuh with buffers of tokens * kColumns elements.
#include "kernels/all_gather/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_barrier.cuh"

namespace warptune {

template <class T, int kColumns, int kRanks, int kBlock>
__global__ void __launch_bounds__(kBlock)
    all_gather_naive(AllGatherArgs args, const __grid_constant__ Peers peers) {
  const int elements = args.tokens * kColumns;
  const int first = blockIdx.x * kBlock + threadIdx.x, stride = gridDim.x * kBlock;
  pdl_wait();
  const PeerBuffers<kRanks> buffers(peers, elements * static_cast<long long>(sizeof(T)));

  for (int i = first; i < elements; i += stride)
    buffers.template of<T>(peers.rank)[i] = static_cast<const T*>(args.x)[i];
  buffers.barrier();
  for (int r = 0; r < kRanks; ++r)
    for (int i = first; i < elements; i += stride) {
      const long long token = i / kColumns;
      static_cast<T*>(args.y)[(token * kRanks + r) * kColumns + i % kColumns] = buffers.template of<T>(r)[i];
    }
}

}  // namespace warptune
