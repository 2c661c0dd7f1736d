// Idea: stage 2 of 3. Mask, scale and softmax of one row of scores per block, in place; keys that the query
// does not see get probability zero, so does every key of a query that sees none.
#include "attention_prefill/sequence.cuh"
#include "common/exp2.cuh"
#include "common/pdl.cuh"
#include "common/reduce.cuh"

namespace warptune {

template <int kQHeads, bool kCausal, int kQLen, int kKvLen, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_softmax(AttentionPrefillArgs args) {
  pdl_wait();
  const Sequence s = load_sequence(args, blockIdx.z);
  const int query = blockIdx.x;
  if (query >= s.q_len) return;
  const int seen = visible_keys<kCausal>(s, query);
  float* row = static_cast<float*>(args.workspace) +
               ((static_cast<long long>(blockIdx.z) * kQHeads + blockIdx.y) * kQLen + query) * kKvLen;
  const float scale = args.scale * kLog2e;

  float most = -WARPTUNE_INFINITY;
  for (int k = threadIdx.x; k < seen; k += kBlock) most = fmaxf(most, row[k]);
  most = block_reduce<Max, kBlock>(most) * scale;
  float sum = 0;
  for (int k = threadIdx.x; k < seen; k += kBlock) {
    const float p = exp2_fast(fmaf(row[k], scale, -most));
    row[k] = p;
    sum += p;
  }
  const float inverse = 1.0f / block_reduce<Sum, kBlock>(sum);
  for (int k = threadIdx.x; k < s.kv_len; k += kBlock) row[k] = k < seen ? row[k] * inverse : 0.0f;
}

}  // namespace warptune
