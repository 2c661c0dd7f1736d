// Naive all-reduce with residual add and RMSNorm: the readable baseline.
// Grid: one block per token; a thread reads elements one by one, and residual_out twice.
// Steps: a block copies its row to its workspace, meets the blocks of its token on the other ranks, adds the
//   rows of all ranks, which it reads from their workspaces, then the residual, and scales the row.
// Sync: one barrier between GPUs (peer_barrier.cuh), one block reduction.
// Workspace: peer_barrier.cuh with buffers of tokens * kHidden elements.
#include "kernels/all_reduce_add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_barrier.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class T, int kHidden, int kRanks, int kBlock>
__global__ void __launch_bounds__(kBlock)
    all_reduce_add_rms_norm_naive(AllReduceAddRmsNormArgs args, const __grid_constant__ Peers peers) {
  const long long row = static_cast<long long>(blockIdx.x) * kHidden;
  const T* const x = static_cast<const T*>(args.x) + row;
  const T* const residual = static_cast<const T*>(args.residual) + row;
  T* const residual_out = static_cast<T*>(args.residual_out) + row;
  pdl_wait();
  const PeerBuffers<kRanks> buffers(peers, args.tokens * static_cast<long long>(kHidden * sizeof(T)));

  for (int i = threadIdx.x; i < kHidden; i += kBlock) buffers.template of<T>(peers.rank)[row + i] = x[i];
  buffers.barrier();
  float squares = 0;
  for (int i = threadIdx.x; i < kHidden; i += kBlock) {
    float sum = 0;
    for (int r = 0; r < kRanks; ++r) sum += to_float(buffers.template of<T>(r)[row + i]);
    residual_out[i] = from_float<T>(to_float(from_float<T>(sum)) + to_float(residual[i]));
    squares += to_float(residual_out[i]) * to_float(residual_out[i]);
  }
  const float scale = rsqrtf(block_reduce<Sum, kBlock>(squares) / kHidden + args.eps);
  for (int i = threadIdx.x; i < kHidden; i += kBlock)
    static_cast<T*>(args.y)[row + i] =
        from_float<T>(to_float(residual_out[i]) * scale * to_float(static_cast<const T*>(args.weight)[i]));
}

}  // namespace warptune
