// One-shot all-reduce: every rank pushes its whole tensor to all peers, and each adds all tensors itself.
// Grid: ceil(kBytes / 16 / (kBlock * kPerThread)) blocks; a thread holds kPerThread vectors of 16 bytes of
//   its own tensor in registers, sends them as packets, and adds to them what its peers' threads of the same
//   index send.
// Sync: none but the data (peer_exchange.cuh): one trip over NVLink. All ranks add in the same order, so
//   results are bitwise equal on all ranks.
// Bytes sent per rank: (ranks - 1) * kBytes.
// Wins: two ranks at all sizes, where a second trip saves no bytes; more ranks where latency binds.
// Source: NCCL (LL protocol), TensorRT-LLM and FlashInfer (one-shot Lamport all-reduce).
// Workspace: peer_exchange.cuh with kRanks * kBytes / 16 slots.
#include "kernels/all_reduce/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_exchange.cuh"

namespace warptune {

template <class T, int kBytes, int kRanks, int kBlock, int kPerThread>
__global__ void __launch_bounds__(kBlock)
    all_reduce_one_shot(AllReduceArgs args, const __grid_constant__ Peers peers) {
  constexpr int kVec = kVec16<T>;
  constexpr int kVectors = kBytes / 16, kTile = kBlock * kPerThread, kOthers = kRanks - 1;
  const T* const x = static_cast<const T*>(args.x);
  T* const y = static_cast<T*>(args.y);
  const int rank = peers.rank;
  const auto vector = [](int j) { return static_cast<int>(blockIdx.x * kTile + j * kBlock + threadIdx.x); };
  const auto valid = [&](int j) { return kVectors % kTile == 0 || vector(j) < kVectors; };
  pdl_launch_dependents();
  pdl_wait();

  const PeerSlots slots(peers, kRanks * kVectors);
  Vec<T, kVec> in[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) in[j] = load_vec<kVec>(x + vector(j) * kVec);
  PeerPacket own[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    own[j] = PeerPacket::pack<T>(in[j]);
#pragma unroll
    for (int i = 0; i < kOthers; ++i)
      if (valid(j)) own[j].store(slots.at(next_peer<kRanks>(rank, i), rank * kVectors + vector(j)));
  }
  slots.count_launch();

  PeerPacket received[kPerThread * kOthers];
  receive(
      received, [&](int i) { return valid(i / kOthers); },
      [&](int i) { return slots.at(rank, other_rank(rank, i % kOthers) * kVectors + vector(i / kOthers)); });
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j))
      store_vec<kVec>(y + vector(j) * kVec, sum_ranks<T, kRanks>(own[j], received + j * kOthers, rank));
}

}  // namespace warptune
