// Idea: stage 2 of 3. Scale, bias, mask, softmax and dropout of one row of scores per block, in place; keys
// that the query does not see get probability zero, so does every key of a query that sees none.
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class T, class S, int kQLen, int kKvLen, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_softmax(AttentionPrefillArgs args) {
  pdl_wait();
  const int query = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
  const Sequence s = load_sequence(args, b);
  if constexpr (S::kLse) pad_lse<S, kBlock>(args, s, b, head, query, 1);
  if (query >= s.q_len) return;
  const int seen = visible_keys<S::kCausal>(s, query), first = first_visible<S>(args, s, query);
  const ScoreBias<T, S> bias(args, s, head);
  const Dropout<S> dropout(args, b, head);
  float* row = static_cast<float*>(args.workspace) +
               ((static_cast<long long>(b) * S::kQHeads + head) * kQLen + query) * kKvLen;
  const float scale = args.scale * kLog2e;

  float most = -WARPTUNE_INFINITY;
  for (int k = first + threadIdx.x; k < seen; k += kBlock) {
    row[k] = fmaf(row[k], scale, bias.at(query, k));
    most = fmaxf(most, row[k]);
  }
  most = block_reduce<Max, kBlock>(most);
  const float offset = most == -WARPTUNE_INFINITY ? 0.0f : most;  // a bias may hide all
  float sum = 0;
  for (int k = first + threadIdx.x; k < seen; k += kBlock) {
    const float p = exp2_fast(row[k] - offset);
    row[k] = dropout.drops(query, k) ? 0.0f : p;
    sum += p;
  }
  sum = block_reduce<Sum, kBlock>(sum);
  const float factor = normalizer<S>(args, sum);
  for (int k = threadIdx.x; k < s.kv_len; k += kBlock) row[k] = k >= first && k < seen ? row[k] * factor : 0;
  if constexpr (S::kLse)
    if (threadIdx.x == 0) lse_rows<S>(args, b, head)[query] = lse_of(most, sum);
}

}  // namespace warptune
