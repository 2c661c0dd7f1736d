// Naive causal mask: the readable baseline.
// Grid: one block per query; a thread writes elements one by one.
#include "kernels/causal_mask/visible.cuh"
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, int kMaxQ, int kMaxK, int kBlock>
__global__ void __launch_bounds__(kBlock) causal_mask_naive(CausalMaskArgs args) {
  pdl_wait();
  const int visible =
      visible_keys(args, static_cast<int>(blockIdx.x) / kMaxQ, static_cast<int>(blockIdx.x) % kMaxQ);
  T* mask = static_cast<T*>(args.mask) + static_cast<long long>(blockIdx.x) * kMaxK;
  for (int k = threadIdx.x; k < kMaxK; k += kBlock) mask[k] = from_float<T>(k < visible ? 1.0f : 0.0f);
}

}  // namespace warptune
