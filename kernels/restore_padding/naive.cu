// Naive copy of packed rows to padded sequences: the readable baseline.
// Grid: one block per padded row; a thread copies elements one by one, and zeros to rows of padding.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/restore_padding/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) restore_padding_naive(RestorePaddingArgs args) {
  pdl_wait();
  const int sequence = static_cast<int>(blockIdx.x) / args.max_q_len;
  const int i = static_cast<int>(blockIdx.x) % args.max_q_len;
  const int start = args.cu_seqlens[sequence];
  const bool real = i < args.cu_seqlens[sequence + 1] - start;
  const T* x = static_cast<const T*>(args.x) + static_cast<long long>(start + i) * kHidden;
  T* y = static_cast<T*>(args.y) + static_cast<long long>(blockIdx.x) * kHidden;
  for (unsigned j = threadIdx.x; j < kHidden; j += kBlock) y[j] = real ? x[j] : from_float<T>(0.0f);
}

}  // namespace warptune
