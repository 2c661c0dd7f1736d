// Softmax between the two GEMMs of a library (variant unfused).
// Grid: [q_heads, batch]; a block converts one row of fp32 scores in the workspace, rows [batch, q_heads]
// with stride kStride, to probabilities of the cache's type in place.
#include "kernels/attention_decode/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"

namespace warptune {

template <class T, int kQHeads, int kContext, int kStride, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_library_softmax(AttentionDecodeArgs args) {
  pdl_wait();
  float* const row = static_cast<float*>(args.workspace) +
                     (static_cast<long long>(blockIdx.y) * kQHeads + blockIdx.x) * kStride;
  softmax_row_in_place<T, kBlock>(row, min(args.lengths[blockIdx.y], kContext), kContext, args.scale);
}

}  // namespace warptune
