// Naive copy of padded sequences to packed rows: the readable baseline.
// Grid: one block per packed token; a thread copies elements one by one.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/remove_padding/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) remove_padding_naive(RemovePaddingArgs args) {
  pdl_wait();
  const long long token = blockIdx.x;
  if (token >= args.tokens) return;
  const T* x = static_cast<const T*>(args.x) + (token + args.padding_offset[token]) * kHidden;
  T* y = static_cast<T*>(args.y) + token * kHidden;
  for (unsigned i = threadIdx.x; i < kHidden; i += kBlock) y[i] = x[i];
}

}  // namespace warptune
