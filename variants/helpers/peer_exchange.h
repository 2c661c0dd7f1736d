#pragma once
// Declarations that the kernels of several ranks share: the workspaces of peer_exchange.cuh and
// peer_barrier.cuh.
#include "variants/helpers/streaming.h"

namespace warptune {

inline Parameter per_thread_parameter() {
  return {"per_thread", {1, 2, 4}, "vectors of 16 bytes that a thread sends"};
}

/// Two buffers of packets, and a counter for each block. `slots`: packets that arrive in a launch.
inline Expression packet_workspace(const Expression& blocks, const Expression& slots) {
  return 16 * (ceil_div(blocks, 4) + 2 * slots);
}

/// Two buffers of `bytes`, and the flags of each block.
inline Expression barrier_workspace(const Expression& blocks, const Expression& bytes) {
  return 16 * ceil_div(blocks * "ranks", 4) + 2 * bytes;
}

}  // namespace warptune
