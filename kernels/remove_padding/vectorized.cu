// Vectorized copy of padded sequences to packed rows: a gather of rows (gather_rows.cuh).
// Grid: the packed rows are one run of vectors, kUnroll per thread.
// Loads: kUnroll in flight per thread.
#include "kernels/common/gather_rows.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/remove_padding/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock, int kUnroll, int kVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) remove_padding_vectorized(RemovePaddingArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const T* x = static_cast<const T*>(args.x);
  gather_rows<kHidden, kBlock, kUnroll, kVec, kCacheHint, false>(
      static_cast<T*>(args.y), args.tokens,
      [&](long long token) { return x + (token + args.padding_offset[token]) * kHidden; });
}

}  // namespace warptune
