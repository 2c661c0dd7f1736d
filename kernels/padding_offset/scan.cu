// Block-wide prefix sum of sequence lengths, and the padding offset of every token.
// Grid: every block scans all sequences, kBlock at a time (cheap), and writes the offsets of its own
//   sequences: the warps of all blocks are assigned round-robin. Block 0 writes cu_seqlens.
// Sync: warp scans by shuffles, warp totals in shared memory, three barriers per kBlock sequences.
// Source: the scan of CUB (warp scans, then a scan of their totals).
#include "kernels/common/pdl.cuh"
#include "kernels/padding_offset/args.h"

namespace warptune {

template <int kBlock>
__global__ void __launch_bounds__(kBlock) padding_offset_scan(PaddingOffsetArgs args) {
  constexpr int kWarps = kBlock / 32;
  __shared__ int starts[kBlock + 1];  // starts of the sequences of this round, and the end of the last
  __shared__ int totals[kWarps];
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int carry = 0;  // tokens before this round, the same in all threads
  for (int first = 0; first < args.batch; first += kBlock) {
    const int b = first + static_cast<int>(threadIdx.x);
    int sum = b < args.batch ? args.lengths[b] : 0;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int left = __shfl_up_sync(0xffffffffu, sum, offset);
      if (lane >= offset) sum += left;
    }
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; ++w) sum += totals[w];
    if (threadIdx.x == 0) starts[0] = carry;
    starts[threadIdx.x + 1] = carry + sum;
    if (blockIdx.x == 0 && b < args.batch) {
      if (b == 0) args.cu_seqlens[0] = 0;
      args.cu_seqlens[b + 1] = carry + sum;
    }
    __syncthreads();
    const int here = min(kBlock, args.batch - first);
    const int warps = kWarps * static_cast<int>(gridDim.x);
    for (int s = static_cast<int>(blockIdx.x) * kWarps + warp; s < here; s += warps) {
      const int start = starts[s], end = starts[s + 1];
      const int offset = (first + s) * args.max_q_len - start;
      for (int t = start + lane; t < end; t += 32) args.padding_offset[t] = offset;
    }
    carry = starts[kBlock];
    __syncthreads();  // the next round writes starts and totals again
  }
}

}  // namespace warptune
