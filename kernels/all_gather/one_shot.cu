// One-shot all-gather: every rank pushes its columns to all peers.
// Grid: ceil(tokens * kColumns / (vector * kBlock * kPerThread)) blocks; a thread sends kPerThread vectors of
//   16 bytes as packets, stores them to its own y, and stores there what its peers' threads of the same index
//   send.
// Sync: none but the data (peer_exchange.cuh): one trip over NVLink.
// Source: NCCL (LL protocol), FlashInfer (Lamport all-reduce).
// Workspace: peer_exchange.cuh with kRanks * tokens * kColumns / vector slots.
#include "kernels/all_gather/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_exchange.cuh"

namespace warptune {

template <class T, int kColumns, int kRanks, int kBlock, int kPerThread>
__global__ void __launch_bounds__(kBlock)
    all_gather_one_shot(AllGatherArgs args, const __grid_constant__ Peers peers) {
  constexpr int kVec = kVec16<T>;
  constexpr int kRow = kColumns / kVec;  // vectors
  constexpr int kTile = kBlock * kPerThread, kOthers = kRanks - 1;
  static_assert(kColumns % kVec == 0);
  const T* const x = static_cast<const T*>(args.x);
  T* const y = static_cast<T*>(args.y);
  const int rank = peers.rank;
  const int vectors = args.tokens * kRow;
  const auto vector = [](int j) { return static_cast<int>(blockIdx.x * kTile + j * kBlock + threadIdx.x); };
  const auto valid = [&](int j) { return vector(j) < vectors; };
  const auto store = [&](int from, int v, const PeerPacket& packet) {
    const long long row = static_cast<long long>(v / kRow) * kRanks + from;
    store_vec<kVec>(y + (row * kRow + v % kRow) * kVec, packet.template unpack<T>());
  };
  pdl_launch_dependents();
  pdl_wait();

  const PeerSlots slots(peers, kRanks * vectors);
  Vec<T, kVec> in[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) in[j] = load_vec<kVec>(x + static_cast<long long>(vector(j)) * kVec);
  PeerPacket own[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    own[j] = PeerPacket::pack<T>(in[j]);
#pragma unroll
    for (int i = 0; i < kOthers; ++i)
      if (valid(j)) own[j].store(slots.at(next_peer<kRanks>(rank, i), rank * vectors + vector(j)));
  }
  slots.count_launch();
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) store(rank, vector(j), own[j]);

  PeerPacket received[kPerThread * kOthers];
  receive(
      received, [&](int i) { return valid(i / kOthers); },
      [&](int i) { return slots.at(rank, other_rank(rank, i % kOthers) * vectors + vector(i / kOthers)); });
#pragma unroll
  for (int i = 0; i < kPerThread * kOthers; ++i)
    if (valid(i / kOthers)) store(other_rank(rank, i % kOthers), vector(i / kOthers), received[i]);
}

}  // namespace warptune
