// Naive SwiGLU: the readable baseline.
// Grid: one thread per output element.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/swiglu/args.h"
#include "kernels/swiglu/silu.cuh"

namespace warptune {

template <class T, int kIntermediate, int kBlock>
__global__ void __launch_bounds__(kBlock) swiglu_naive(SwigluArgs args) {
  pdl_wait();
  const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  const long long token = i / kIntermediate;
  if (token >= args.tokens) return;
  const T* gate = static_cast<const T*>(args.gate_up) + token * kIntermediate + i;  // token * 2 rows + column
  static_cast<T*>(args.y)[i] = from_float<T>(silu(to_float(gate[0])) * to_float(gate[kIntermediate]));
}

}  // namespace warptune
