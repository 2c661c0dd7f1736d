// Idea: the packed rows as one run of wide pieces, several per thread, all loads before the first store.
#include "kernels/common/gather_rows.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/remove_padding/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock, int kUnroll, int kVec, int kStore>
__global__ void __launch_bounds__(kBlock) remove_padding_vectorized(RemovePaddingArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const T* x = static_cast<const T*>(args.x);
  gather_rows<kHidden, kBlock, kUnroll, kVec, kStore, false>(
      static_cast<T*>(args.y), args.tokens,
      [&](long long token) { return x + (token + args.padding_offset[token]) * kHidden; });
}

}  // namespace warptune
