// Stands before the text of a reference or kernel in CUDA where the C++ compiler of the host compiles it: the
// words of CUDA that plain code uses, and a call that runs one thread after the other. What needs threads at
// the same time is an error.
#include <math.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __ldg(address) (*(address))
#define WARPTUNE_NOT_PLAIN \
  _Pragma("GCC error \"a kernel that runs without a GPU has no shared memory, barriers or atomics\"")
#define __shared__ WARPTUNE_NOT_PLAIN
#define __syncthreads() WARPTUNE_NOT_PLAIN
#define __syncwarp(...) WARPTUNE_NOT_PLAIN
#define __shfl_sync(...) WARPTUNE_NOT_PLAIN
#define __shfl_up_sync(...) WARPTUNE_NOT_PLAIN
#define __shfl_down_sync(...) WARPTUNE_NOT_PLAIN
#define __shfl_xor_sync(...) WARPTUNE_NOT_PLAIN
#define atomicAdd(...) WARPTUNE_NOT_PLAIN
#define atomicMax(...) WARPTUNE_NOT_PLAIN
#define atomicMin(...) WARPTUNE_NOT_PLAIN

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

namespace warptune_host {

template <class... P, std::size_t... I>
void call(void (*kernel)(P...), void* const* arguments, std::index_sequence<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}
/// `extents`: the grid and the block, three each.
template <class... P>
void run(void (*kernel)(P...), void* const* arguments, const unsigned* extents) {
  gridDim = {extents[0], extents[1], extents[2]};
  blockDim = {extents[3], extents[4], extents[5]};
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
              call(kernel, arguments, std::index_sequence_for<P...>());
}
/// The number of parameters; the first 64 sizes go to `sizes`.
template <class... P>
unsigned parameters(void (*)(P...), unsigned* sizes) {
  unsigned count = 0;
  ((count < 64 ? void(sizes[count++] = sizeof(P)) : void(++count)), ...);
  return count;
}

}  // namespace warptune_host
