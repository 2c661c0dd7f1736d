// Naive prefix sum of sequence lengths, and the padding offset of every token: the readable baseline.
// Grid: one thread walks over all sequences.
#include "kernels/common/pdl.cuh"
#include "kernels/padding_offset/args.h"

namespace warptune {

__global__ void padding_offset_naive(PaddingOffsetArgs args) {
  pdl_wait();
  int start = 0;
  for (int b = 0; b < args.batch; ++b) {
    args.cu_seqlens[b] = start;
    const int length = args.lengths[b];
    for (int i = 0; i < length; ++i) args.padding_offset[start + i] = b * args.max_q_len - start;
    start += length;
  }
  args.cu_seqlens[args.batch] = start;
}

}  // namespace warptune
