// Two-shot all-reduce: reduce-scatter, then all-gather, both by packets.
// Shards: rank r adds shard r, one of kRanks runs of vectors of 16 bytes. A thread owns kPerThread vectors of
//   every shard, at the same places.
// Grid: ceil(shard vectors / (kBlock * kPerThread)) blocks.
// Steps of a thread: it sends its vectors of the other shards to their ranks; adds the vectors that arrive to
//   its own shard's, rounds, and sends the sums to all peers; stores the sums of the other shards.
// Sync: none but the data (peer_exchange.cuh): two trips over NVLink.
// Bytes sent per rank: 2 * (ranks - 1) / ranks * kBytes.
// Wins: four and more ranks where bytes bind. With two ranks one shot sends as much in one trip.
// Source: NCCL (LL protocol), TensorRT-LLM and FlashInfer (two-shot Lamport all-reduce).
// Workspace: peer_exchange.cuh with 2 * kRanks * shard vectors slots: scatter[sender], then gather[sender].
#include "kernels/all_reduce/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_exchange.cuh"

namespace warptune {

template <class T, int kBytes, int kRanks, int kBlock, int kPerThread>
__global__ void __launch_bounds__(kBlock)
    all_reduce_two_shot(AllReduceArgs args, const __grid_constant__ Peers peers) {
  constexpr int kVec = kVec16<T>;
  constexpr int kVectors = kBytes / 16, kShard = ceil_div(kVectors, kRanks);
  constexpr int kTile = kBlock * kPerThread, kOthers = kRanks - 1;
  const T* const x = static_cast<const T*>(args.x);
  T* const y = static_cast<T*>(args.y);
  const int rank = peers.rank;
  const auto vector = [](int j) { return static_cast<int>(blockIdx.x * kTile + j * kBlock + threadIdx.x); };
  const auto valid = [&](int shard, int j) {
    return (kShard % kTile == 0 || vector(j) < kShard) &&
           (kVectors % kRanks == 0 || shard * kShard + vector(j) < kVectors);
  };
  const auto load = [&](int shard, int j) { return load_vec<kVec>(x + (shard * kShard + vector(j)) * kVec); };
  const auto store = [&](int shard, int j, const Vec<T, kVec>& sum) {
    store_vec<kVec>(y + (shard * kShard + vector(j)) * kVec, sum);
  };
  pdl_launch_dependents();
  pdl_wait();

  // Reduce-scatter.
  const PeerSlots slots(peers, 2 * kRanks * kShard);
  Vec<T, kVec> own[kPerThread], other[kPerThread][kOthers];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
#pragma unroll
    for (int i = 0; i < kOthers; ++i)
      if (const int peer = next_peer<kRanks>(rank, i); valid(peer, j)) other[j][i] = load(peer, j);
    if (valid(rank, j)) own[j] = load(rank, j);
  }
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
#pragma unroll
    for (int i = 0; i < kOthers; ++i)
      if (const int peer = next_peer<kRanks>(rank, i); valid(peer, j))
        PeerPacket::pack<T>(other[j][i]).store(slots.at(peer, rank * kShard + vector(j)));
  slots.count_launch();

  PeerPacket received[kPerThread * kOthers];
  receive(
      received, [&](int i) { return valid(rank, i / kOthers); },
      [&](int i) { return slots.at(rank, other_rank(rank, i % kOthers) * kShard + vector(i / kOthers)); });

  // All-gather.
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(rank, j)) {
      const Vec<T, kVec> sum =
          sum_ranks<T, kRanks>(PeerPacket::pack<T>(own[j]), received + j * kOthers, rank);
      const PeerPacket packet = PeerPacket::pack<T>(sum);
#pragma unroll
      for (int i = 0; i < kOthers; ++i)
        packet.store(slots.at(next_peer<kRanks>(rank, i), (kRanks + rank) * kShard + vector(j)));
      store(rank, j, sum);
    }
  receive(
      received, [&](int i) { return valid(other_rank(rank, i % kOthers), i / kOthers); },
      [&](int i) {
        return slots.at(rank, (kRanks + other_rank(rank, i % kOthers)) * kShard + vector(i / kOthers));
      });
#pragma unroll
  for (int i = 0; i < kPerThread * kOthers; ++i) {
    const int shard = other_rank(rank, i % kOthers), j = i / kOthers;
    if (valid(shard, j)) store(shard, j, received[i].template unpack<T>());
  }
}

}  // namespace warptune
