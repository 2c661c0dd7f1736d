#pragma once
// Exchange of packets (peer_packet.cuh) between the kernels that all ranks launch together.
// Slots: every workspace holds two buffers of slots; even launches use one, odd launches the other. A slot
//   is zero before a packet arrives, and its only reader clears it.
// Why two buffers are enough: a rank that stores packets of launch n + 2 has ended launch n + 1, so it has
//   received packets of launch n + 1 of every rank, which these store after they have ended launch n and
//   cleared its slots.
// Progress: the blocks of one index wait for each other across ranks, so these must run at the same time. A
//   grid that exceeds the GPU progresses because blocks start in the order of their indices.
#include "kernels/common/peer_packet.cuh"
#include "kernels/common/peers.h"

namespace warptune {

/// The workspace of a kernel that exchanges packets: unsigned launches[gridDim.x], padded to 16 bytes, then
/// two buffers of `slots` packets. It serves one grid and one number of slots; others find their slots
/// elsewhere.
class PeerSlots {
 public:
  /// All threads of the block, after pdl_wait().
  __device__ __forceinline__ PeerSlots(const Peers& peers, int slots) : peers_(peers) {
    launches_ = counter();
    offset_ = (gridDim.x + 3) / 4 + static_cast<long long>(launches_ % 2) * slots;
  }

  /// Slot `i` of this launch in the workspace of `rank`.
  __device__ __forceinline__ PeerPacket* at(int rank, int i) const {
    return static_cast<PeerPacket*>(peers_.memory[rank]) + offset_ + i;
  }

  /// Counts this launch. All threads of the block; best called while packets are in flight.
  __device__ __forceinline__ void count_launch() const {
    __syncthreads();  // all threads have read the counter
    if (threadIdx.x == 0) counter() = launches_ + 1;
  }

 private:
  __device__ __forceinline__ unsigned& counter() const {
    return static_cast<unsigned*>(peers_.memory[peers_.rank])[blockIdx.x];
  }

  const Peers& peers_;
  unsigned launches_;
  long long offset_;
};

/// Rank number `i` (0 to ranks - 2) of the others, so that every rank sends to another one first.
template <int kRanks>
__device__ __forceinline__ int next_peer(int rank, int i) {
  const int peer = rank + 1 + i;
  return peer < kRanks ? peer : peer - kRanks;
}

/// Rank number `i` (0 to ranks - 2) of the others in ascending order.
__device__ __forceinline__ int other_rank(int rank, int i) { return i < rank ? i : i + 1; }

/// Polls until the packets at slot(i) are complete, for all i < N with valid(i), and clears the slots.
template <int N, class Valid, class Slot>
__device__ __forceinline__ void receive(PeerPacket (&packets)[N], Valid valid, Slot slot) {
  bool complete;
  do {
    complete = true;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (valid(i)) packets[i] = PeerPacket::load(slot(i));
#pragma unroll
    for (int i = 0; i < N; ++i) complete = complete && (!valid(i) || packets[i].is_complete());
  } while (!complete);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (valid(i)) PeerPacket{}.store(slot(i));
}

/// The sum over all ranks in the order of ranks, in fp32, rounded to T. `received`: the packets of the other
/// ranks in ascending order.
template <class T, int kRanks>
__device__ __forceinline__ Vec<T, kVec16<T>> sum_ranks(const PeerPacket& own, const PeerPacket* received,
                                                       int rank) {
  Vec<float, kVec16<T>> sum;
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    const PeerPacket& below = received[min_of(r, kRanks - 2)];
    const PeerPacket& above = received[max_of(r - 1, 0)];
    PeerPacket packet;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      packet.word[i] = r < rank ? below.word[i] : r == rank ? own.word[i] : above.word[i];
    const auto x = to_float(packet.template unpack<T>());
#pragma unroll
    for (int i = 0; i < kVec16<T>; ++i) sum[i] = r == 0 ? x[i] : sum[i] + x[i];
  }
  return from_float<T>(sum);
}

}  // namespace warptune
