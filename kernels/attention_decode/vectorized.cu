// Fused decode attention on CUDA cores with 16-byte loads, without split-KV.
// Grid: [q_heads, batch]; a block computes one query head of one sequence.
// Roles: groups of lanes process one key each, with an online softmax per group or warp
//   (cuda_core_attention.cuh).
// Sync: no barrier in the main loop; warps combine through shared memory at the end.
// Append: RoPE and the KV cache append can be fused in (append.cuh).
// Source: FasterTransformer, masked multi-head attention.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/cuda_core_attention.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class P, int kBlock, int kThreadsPerKey, int kThreadsPerValue, int kUnroll>
__global__ void __launch_bounds__(kBlock) attention_decode_vectorized(typename P::Args args) {
  constexpr int kWarps = kBlock / 32;
  __shared__ __align__(16) float rows[kWarps * P::kHeadDim];
  __shared__ SoftmaxState states[kWarps];
  pdl_launch_dependents();
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y, length = args.lengths[b];
  const Output<P> out(args, b, head);
  if (length == 0) {
    out.template put_empty<1, kBlock>();
    return;
  }
  CudaCoreAttention<P, 1, kThreadsPerKey, kThreadsPerValue, kUnroll> attention;
  attention.template attend_sequence<kWarps>(args, b, head, P::first_key(length), length, length, rows);
  attention.store(rows, states);
  __syncthreads();
  combine_warps<kWarps, 1, P::kHeadDim, P::kHeadDim>(
      rows, states, [&](int h, int i, float value, SoftmaxState all) { out.put(h, i, value, all); });
}

}  // namespace warptune
