// Idea: the second kernel of the split variants; one block per sequence and query head merges the splits.
#include "attention_decode/combine.cuh"
#include "common/pdl.cuh"

namespace warptune {

template <class T, int kQHeads, int kHeadDim, int kSplits, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_combine(AttentionDecodeArgs args) {
  __shared__ float weights[kSplits];
  __shared__ __align__(16) float sums[kCombineFloats<kBlock>];
  pdl_launch_next();
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y;
  const int active = split_range<kSplits>(args.lengths[b], 0).active;
  if (active <= 1) return;  // the only split has written the result itself
  const long long row = static_cast<long long>(b) * kQHeads + head;
  combine_splits<T, kQHeads, kHeadDim, kSplits, 1, kBlock>(
      SplitWorkspace<kQHeads, kHeadDim, kSplits>(args), row, active,
      static_cast<T*>(args.out) + row * kHeadDim, weights, sums);
}

}  // namespace warptune
