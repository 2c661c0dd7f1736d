// compare: errors of a tensor against expected values in device memory.
// Each block reduces a grid-strided part of the elements to one result, which the host combines, so that the
// sums do not depend on the order in which blocks run.
#include "kernels/common/quantize.cuh"
#include "kernels/support/args.h"

namespace warptune {

template <class T>
__device__ __forceinline__ double to_double(T x) {
  if constexpr (is_same<T, int> || is_same<T, long long> || is_same<T, double>)
    return static_cast<double>(x);
  else
    return static_cast<double>(to_float(x));
}

template <class T>
__global__ void compare(CompareArgs args) {
  constexpr int kMaxWarps = 32;
  ElementErrors errors;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += stride)
    add_error(errors, to_double(static_cast<const T*>(args.data)[args.index[i]]), args.want[i], args.slack[i],
              args.is_exact, i);
  for (int offset = 16; offset > 0; offset /= 2) {
    ElementErrors other;
    other.squares = __shfl_down_sync(0xffffffffu, errors.squares, offset);
    other.largest = __shfl_down_sync(0xffffffffu, errors.largest, offset);
    other.worst = __shfl_down_sync(0xffffffffu, errors.worst, offset);
    other.unequal = __shfl_down_sync(0xffffffffu, errors.unequal, offset);
    add_errors(errors, other);
  }
  __shared__ double squares[kMaxWarps], largest[kMaxWarps];
  __shared__ long long worst[kMaxWarps], unequal[kMaxWarps];
  if (threadIdx.x % 32 == 0) {
    const unsigned warp = threadIdx.x / 32;
    squares[warp] = errors.squares;
    largest[warp] = errors.largest;
    worst[warp] = errors.worst;
    unequal[warp] = errors.unequal;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
    ElementErrors other;
    other.squares = squares[warp];
    other.largest = largest[warp];
    other.worst = worst[warp];
    other.unequal = unequal[warp];
    add_errors(errors, other);
  }
  args.errors[blockIdx.x] = errors;
}

}  // namespace warptune
