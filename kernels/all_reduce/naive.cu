// Naive all-reduce: the readable baseline.
// Grid: any; blocks of one index read and write the same elements on all ranks, one by one.
// Steps: a block copies its elements to its workspace, meets the blocks of its index on the other ranks, and
//   adds the elements of all ranks, which it reads from their workspaces.
// Sync: one barrier between GPUs (peer_barrier.cuh), so two trips over NVLink and a third back.
// Workspace: peer_barrier.cuh with buffers of kBytes.
#include "kernels/all_reduce/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_barrier.cuh"

namespace warptune {

template <class T, int kBytes, int kRanks, int kBlock>
__global__ void __launch_bounds__(kBlock)
    all_reduce_naive(AllReduceArgs args, const __grid_constant__ Peers peers) {
  constexpr int kElements = kBytes / static_cast<int>(sizeof(T));
  const int first = blockIdx.x * kBlock + threadIdx.x, stride = gridDim.x * kBlock;
  pdl_wait();
  const PeerBuffers<kRanks> buffers(peers, kBytes);

  for (int i = first; i < kElements; i += stride)
    buffers.template of<T>(peers.rank)[i] = static_cast<const T*>(args.x)[i];
  buffers.barrier();
  for (int i = first; i < kElements; i += stride) {
    float sum = 0;
    for (int r = 0; r < kRanks; ++r) sum += to_float(buffers.template of<T>(r)[i]);
    static_cast<T*>(args.y)[i] = from_float<T>(sum);
  }
}

}  // namespace warptune
