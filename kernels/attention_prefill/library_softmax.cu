// Idea: what stands between two products of a library. A block per query and head turns its fp32 scores in
// the workspace, rows [batch, q_heads, q_len] kStride apart, into weights of the cache's type in the same
// place; keys that the query does not see get 0. kCausal as the dim: 1 bottom right, 2 top left.
#include "kernels/attention_prefill/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"

namespace warptune {

template <class T, int kQLen, int kKvLen, int kCausal, int kStride, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_library_softmax(AttentionPrefillArgs args) {
  pdl_wait();
  const int query = blockIdx.x, position = kCausal == 2 ? query : query + kKvLen - kQLen;
  float* const row =
      static_cast<float*>(args.workspace) + (static_cast<long long>(blockIdx.y) * kQLen + query) * kStride;
  softmax_row_in_place<T, kBlock>(row, kCausal != 0 ? min(kKvLen, position + 1) : kKvLen, kKvLen, args.scale);
}

}  // namespace warptune
