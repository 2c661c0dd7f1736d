// Idea: one block per sequence and query head; groups of lanes take keys with 16-byte loads, no barrier in
// the loop over keys, one merge through shared memory at the end. The classic fused masked multi-head
// attention; it can also add the bias, rotate, and append k and v.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/lane_groups.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class P, int kBlock, int kLanes, int kValueLanes, int kUnroll>
__global__ void __launch_bounds__(kBlock) attention_decode_vectorized(AttentionDecodeArgs args) {
  constexpr int kWarps = kBlock / 32;
  __shared__ __align__(16) float rows[kWarps * P::kHeadDim];
  __shared__ SoftmaxState states[kWarps];
  pdl_launch_dependents();
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y, length = args.lengths[b];
  const Output<P> out(args, b, head);
  if (length == 0) {
    out.template put_nothing<1, kBlock>();
    return;
  }
  LaneGroups<P, 1, kLanes, kValueLanes, kUnroll> groups;
  groups.template attend_sequence<kWarps>(args, b, head, P::first_key(length), length, length, rows);
  groups.store(rows, states);
  __syncthreads();
  merge_warps<kWarps, 1, P::kHeadDim, P::kHeadDim>(
      rows, states, [&](int h, int i, float value, SoftmaxState all) { out.put(h, i, value, all); });
}

}  // namespace warptune
