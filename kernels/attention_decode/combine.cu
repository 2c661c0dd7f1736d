// Second kernel of split-KV decode attention: combines the splits (combine.cuh).
// Grid: [q_heads, batch]; a block combines the partial rows of one query head from the workspace.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class P, int kSplits, int kSplitKeys, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_combine(AttentionDecodeArgs args) {
  __shared__ float weights[kSplits];
  __shared__ __align__(16) float sums[kCombineFloats<kBlock>];
  pdl_launch_dependents();
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y, length = args.lengths[b];
  const int active = split_range<kSplits, kSplitKeys>(P::first_key(length), length, 0).active;
  if (active <= 1) return;  // the only split wrote the output
  combine_splits<P, kSplits, 1, kBlock>(SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>(args),
                                        static_cast<long long>(b) * P::kQHeads + head, active,
                                        Output<P>(args, b, head), weights, sums);
}

}  // namespace warptune
