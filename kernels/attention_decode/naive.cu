// Idea: one block per sequence and query head walks over tiles of keys, a thread per key for the scores, a
// thread per element for the sum over V, online softmax between tiles: the readable baseline for any shape.
#include "attention_decode/cache.cuh"
#include "common/pdl.cuh"
#include "common/reduce.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kDsx, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_naive(AttentionDecodeArgs args) {
  __shared__ float q[kHeadDim], sums[kHeadDim], weights[kBlock];
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y, length = args.lengths[b];
  const long long row = (static_cast<long long>(b) * kQHeads + head) * kHeadDim;
  const HeadCache<T, kHeadDim, kDsx> cache(
      args, static_cast<long long>(b) * kKvHeads + head / (kQHeads / kKvHeads));
  for (int i = threadIdx.x; i < kHeadDim; i += kBlock) {
    q[i] = to_float(static_cast<const T*>(args.q)[row + i]) * args.scale;
    sums[i] = 0.0f;
  }
  __syncthreads();

  float max = -WARPTUNE_INFINITY, sum = 0.0f;
  for (int first = 0; first < length; first += kBlock) {
    const int key = first + threadIdx.x, keys = min_of(kBlock, length - first);
    float score = -WARPTUNE_INFINITY;
    if (key < length) {
      score = 0.0f;
      for (int i = 0; i < kHeadDim; ++i) score += q[i] * to_float(*cache.k_at(key, i));
    }
    const float new_max = fmaxf(max, block_reduce<Max, kBlock>(score));
    const float weight = expf(score - new_max), rescale = expf(max - new_max);
    weights[threadIdx.x] = weight;
    sum = sum * rescale + block_reduce<Sum, kBlock>(weight);
    max = new_max;
    __syncthreads();
    for (int i = threadIdx.x; i < kHeadDim; i += kBlock) {
      float x = sums[i] * rescale;
      for (int j = 0; j < keys; ++j) x += weights[j] * to_float(*cache.v_at(first + j, i));
      sums[i] = x;
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < kHeadDim; i += kBlock)
    static_cast<T*>(args.out)[row + i] = from_float<T>(length > 0 ? sums[i] / sum : 0.0f);
}

}  // namespace warptune
