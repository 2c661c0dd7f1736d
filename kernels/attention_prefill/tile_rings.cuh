#pragma once
// Idea: what one thread fetches waits in rings of shared memory for the warpgroups that compute. A slot has a
// barrier for being full, which the copy itself arrives at, and one for being empty, at which each warp does.
#include "kernels/attention_prefill/work_list.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// Which slot of a ring comes next, and how often it was used before, modulo 2.
template <int kSlots>
struct RingPosition {
  int slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};

/// Shared memory, aligned to 1024: tiles of queries, later of their output, and kStages tiles of keys and of
/// values; each as swizzled matrices of 64 elements a row.
template <class S, int kConsumers, int kTileN, int kStages>
struct TileRings {
  static constexpr int kTileM = 64 * kConsumers, kQueries = 2;
  static constexpr int kParts = ceil_div(S::kHeadDim, 64), kPartsV = ceil_div(S::kHeadDimV, 64);
  static constexpr int kPartsQ = max_of(kParts, kPartsV);
  static constexpr int kPartM = kTileM * 128, kPartN = kTileN * 128;  // bytes of a matrix
  using QRing = RingPosition<kQueries>;
  using WorkRing = RingPosition<kQueries + 1>;
  using KeyRing = RingPosition<kStages>;

  unsigned char q[kQueries][kPartsQ * kPartM], k[kStages][kParts * kPartN], v[kStages][kPartsV * kPartN];
  struct Barriers {
    Mbarrier q_full[kQueries], q_empty[kQueries];
    Mbarrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  } barriers;
  Work works[kQueries + 1];  // of the queries in shared memory, and of those to come

  /// One thread, before any other uses them.
  __device__ __forceinline__ void init_barriers() {
    for (int i = 0; i < kQueries; ++i)
      mbarrier_init(&barriers.q_full[i], 1), mbarrier_init(&barriers.q_empty[i], 4 * kConsumers);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&barriers.k_full[i], 1), mbarrier_init(&barriers.v_full[i], 1);
      mbarrier_init(&barriers.k_empty[i], 4 * kConsumers),
          mbarrier_init(&barriers.v_empty[i], 4 * kConsumers);
    }
    mbarrier_init_fence();
  }
};

}  // namespace warptune
