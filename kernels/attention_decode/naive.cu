// Decode attention, the readable baseline for any shape.
// Grid: [batch * q_heads]; a block computes one query head of one sequence over tiles of kBlock keys.
// Roles: a thread per key for Q.K^T, a thread per element of head_dim for P.V; online softmax between tiles.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class P, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_naive(AttentionDecodeArgs args) {
  __shared__ float q[P::kHeadDim], sums[P::kHeadDim], weights[kBlock];
  pdl_wait();
  const int head = blockIdx.x % P::kQHeads, b = blockIdx.x / P::kQHeads, length = args.lengths[b];
  const long long row = static_cast<long long>(blockIdx.x) * P::kHeadDim;
  const KvCache<P> cache(args, b, head / P::kGroup);
  const ScoreBiasTerm<P, 1> bias(args, b, head, length);
  const float scale = args.scale * kLog2e * cache.head_k_scale();
  for (int i = threadIdx.x; i < P::kHeadDim; i += kBlock) {
    q[i] = to_float(static_cast<const typename P::T*>(args.q)[row + i]) * scale;
    sums[i] = 0.0f;
  }
  __syncthreads();

  SoftmaxState state = SoftmaxState::none();
  for (long long tile = P::first_key(length); tile < length; tile += kBlock) {
    const int first = static_cast<int>(tile), keys = min_of(kBlock, length - first);
    const bool is_key = static_cast<int>(threadIdx.x) < keys;
    const int key = is_key ? first + static_cast<int>(threadIdx.x) : length - 1;
    const long long k_row = cache.row(key);
    float score = -WARPTUNE_INFINITY;
    if (is_key) {
      score = 0.0f;
      for (int i = 0; i < P::kHeadDim; ++i) score += q[i] * to_float(*cache.k_at(k_row, i));
      score = bias(score * cache.k_scale(k_row), 0, key);
    }
    const float rescale = state.raise(block_reduce<Max, kBlock>(score));
    const float weight = state.weight(score);
    weights[threadIdx.x] = weight * cache.v_scale(k_row);
    state.sum += block_reduce<Sum, kBlock>(weight);
    __syncthreads();
    for (int i = threadIdx.x; i < P::kHeadDim; i += kBlock) {
      float x = sums[i] * rescale;
      for (int j = 0; j < keys; ++j) x += weights[j] * to_float(*cache.v_at(cache.row(first + j), i));
      sums[i] = x;
    }
    __syncthreads();
  }
  const Output<P> out(args, b, head);
  for (int i = threadIdx.x; i < P::kHeadDim; i += kBlock) out.put(0, i, sums[i], state);
}

}  // namespace warptune
