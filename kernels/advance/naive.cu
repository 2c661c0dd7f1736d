// End of a decode step: writes the sampled ids and advances the state of every unfinished sequence.
// Grid: one block; a thread takes sequences round-robin.
// Sync: all threads read the step before thread 0 increments it.
#include "kernels/advance/args.h"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <int kBlock>
__global__ void __launch_bounds__(kBlock) advance_naive(AdvanceArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const int step = *args.step;
  for (int b = threadIdx.x; b < args.batch; b += kBlock) {
    if (args.positions[b] < 0) continue;
    const int id = args.ids[b];
    if (step < args.max_steps) args.transcript[static_cast<long long>(b) * args.max_steps + step] = id;
    if (args.eos >= 0 && id == args.eos) {
      args.positions[b] = -1;
      args.lengths[b] = 0;
    } else {
      ++args.positions[b];
      ++args.lengths[b];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    *args.step = step + 1;
    ++args.rng[1];
  }
}

}  // namespace warptune
