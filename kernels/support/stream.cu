// Measured peaks of memory bandwidth: read, copy and write streams. And kernels that wait or do nothing.
// Grid: grid-stride; a thread moves kUnroll vectors of 16 bytes per step, all loads in flight before the
//   first use, each byte once per round.
#include "kernels/common/pdl.cuh"
#include "kernels/common/peers.h"
#include "kernels/common/special_registers.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/support/args.h"

namespace warptune {

/// Reads the same bytes kRounds times: where they fit the L2, the peak is that of the L2.
template <int kUnroll, int kRounds = 1>
__global__ void __launch_bounds__(512) stream_read(StreamArgs args) {
  const uint4* from = static_cast<const uint4*>(args.from);
  const long long span = static_cast<long long>(blockDim.x) * kUnroll;
  unsigned seen = 0;
  for (int round = 0; round < kRounds; ++round)
    for (long long base = blockIdx.x * span; base < args.vectors; base += gridDim.x * span) {
      uint4 x[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const long long at = base + i * blockDim.x + threadIdx.x;
        if (at < args.vectors)
          x[i] = load_vec_nc<1>(from + at)[0];
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
  for (long long base = blockIdx.x * span; base < args.vectors; base += gridDim.x * span) {
    uint4 x[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.vectors) x[i] = __ldcs(from + at);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.vectors) __stcs(to + at, x[i]);
    }
  }
}

template <int kUnroll>
__global__ void __launch_bounds__(512) stream_write(StreamArgs args) {
  uint4* to = static_cast<uint4*>(args.to);
  const long long span = static_cast<long long>(blockDim.x) * kUnroll;
  const uint4 value = {threadIdx.x, 1u, 2u, 3u};
  for (long long base = blockIdx.x * span; base < args.vectors; base += gridDim.x * span) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long at = base + i * blockDim.x + threadIdx.x;
      if (at < args.vectors) __stcs(to + at, value);
    }
  }
}

/// Waits for a time, so that work queued after it starts without gaps.
__global__ void spin(SpinArgs args) {
  const long long start = global_timer_ns();
  while (global_timer_ns() - start < args.nanoseconds) {
  }
}

/// One block of one thread on each rank: waits until all ranks have come to this meeting.
__global__ void meet_ranks(MeetRanksArgs args, const __grid_constant__ Peers peers) {
  const auto slot = [&](int of, int from) {
    return static_cast<volatile unsigned*>(peers.memory[of]) + from;
  };
  for (int rank = 0; rank < peers.ranks; ++rank) *slot(rank, peers.rank) = args.meeting;
  for (int rank = 0; rank < peers.ranks; ++rank)
    while (*slot(peers.rank, rank) < args.meeting) {
    }
}

__global__ void empty(SpinArgs) {}

/// The same as part of a chain of programmatic dependent launches.
__global__ void empty_dependent(SpinArgs) {
  pdl_launch_dependents();
  pdl_wait();
}

}  // namespace warptune
