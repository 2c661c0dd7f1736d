// Idea: the ceilings of device memory: every thread moves 16-byte chunks, several in flight, each once. And a
// kernel that waits (so that work queued behind it starts without gaps), and one that does nothing.
#include "kernels/common/pdl.cuh"
#include "kernels/support/args.h"

namespace warptune {

/// `kRounds` times over the same bytes: where they fit the L2, the ceiling is the L2's.
template <int kUnroll, int kRounds = 1>
__global__ void __launch_bounds__(512) stream_read(StreamArgs args) {
  const uint4* from = static_cast<const uint4*>(args.from);
  const long long span = static_cast<long long>(blockDim.x) * kUnroll;
  unsigned seen = 0;
  for (int round = 0; round < kRounds; ++round)
    for (long long base = blockIdx.x * span; base < args.chunks; base += gridDim.x * span) {
      uint4 x[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const long long at = base + i * blockDim.x + threadIdx.x;
        if (at < args.chunks)
          asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w)
                       : "l"(from + at));
        else
          x[i] = {};
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) seen |= x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
    }
  if (seen == 0x12345677u) *static_cast<unsigned*>(args.to) = seen;  // keeps the loads alive
}

template <int kUnroll>
__global__ void __launch_bounds__(512) stream_copy(StreamArgs args) {
  const uint4* from = static_cast<const uint4*>(args.from);
  uint4* to = static_cast<uint4*>(args.to);
  const long long span = static_cast<long long>(blockDim.x) * kUnroll;
  for (long long base = blockIdx.x * span; base < args.chunks; base += gridDim.x * span) {
    uint4 x[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.chunks) x[i] = __ldcs(from + at);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.chunks) __stcs(to + at, x[i]);
    }
  }
}

template <int kUnroll>
__global__ void __launch_bounds__(512) stream_write(StreamArgs args) {
  uint4* to = static_cast<uint4*>(args.to);
  const long long span = static_cast<long long>(blockDim.x) * kUnroll;
  const uint4 value = {threadIdx.x, 1u, 2u, 3u};
  for (long long base = blockIdx.x * span; base < args.chunks; base += gridDim.x * span) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.chunks) __stcs(to + at, value);
    }
  }
}

__global__ void spin(SpinArgs args) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < args.nanoseconds);
}

__global__ void empty(SpinArgs) {}

/// The same as a link of a chain of dependent launches.
__global__ void empty_dependent(SpinArgs) {
  pdl_launch_dependents();
  pdl_wait();
}

}  // namespace warptune
