// Naive P.V for any shape: the readable baseline.
// Grid: one block per sequence and query head; a thread owns an element of the head and walks over all
//   keys.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock>
__global__ void __launch_bounds__(kBlock) logits_dot_v_naive(LogitsDotVArgs args) {
  pdl_wait();
  const int head = blockIdx.x % kQHeads, b = blockIdx.x / kQHeads, length = args.lengths[b];
  const long long row = blockIdx.x,
                  kv_row = static_cast<long long>(b) * kKvHeads + head / (kQHeads / kKvHeads);
  const T* logits = static_cast<const T*>(args.logits) + row * args.capacity;
  const T* v = static_cast<const T*>(args.v_cache) + kv_row * args.capacity * kHeadDim;
  for (int i = threadIdx.x; i < kHeadDim; i += kBlock) {
    float sum = 0.0f;
    for (int key = 0; key < length; ++key)
      sum += to_float(logits[key]) * to_float(v[static_cast<long long>(key) * kHeadDim + i]);
    static_cast<T*>(args.out)[row * kHeadDim + i] = from_float<T>(sum);
  }
}

}  // namespace warptune
