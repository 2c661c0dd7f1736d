// One-shot all-reduce with residual add and RMSNorm in one kernel.
// Grid: kCluster blocks per token, a cluster where kCluster > 1; a thread holds its vectors of 16 bytes in
//   registers from the load of x to the store of y.
// Steps: a thread sends its vectors of x to all peers as packets, loads the residual while they are in
//   flight, adds what its peers' threads of the same index send, rounds, adds the residual; then the row is
//   scaled. Roundings are those of add_rms_norm after an all_reduce.
// Sync: none between ranks but the data (peer_exchange.cuh). For the sum of squares each warp stores its sum
//   to the shared memory of all blocks of the cluster (st.async); a fence would wait for packets in flight.
// Wins: wherever a norm follows an all_reduce: one launch and one trip through memory less. Clusters: up to
//   128 tokens, whose packets one SM per token sends too slowly.
// Source: TensorRT-LLM and FlashInfer (one-shot Lamport all-reduce with residual and RMSNorm).
// Workspace: peer_exchange.cuh with kRanks * tokens * kHidden / vector slots.
#include "kernels/all_reduce_add_rms_norm/args.h"
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/peer_exchange.cuh"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

/// Sum over the threads of a cluster, or of a block. An object lies in shared memory.
template <int kBlock, int kCluster>
struct ClusterSum {
  static constexpr int kWarps = kBlock / 32;
  static_assert(kWarps * kCluster <= 32, "every thread adds the sums of all warps");

  alignas(16) float sums[kCluster * kWarps];
  Mbarrier full;  // counts the bytes of sums that arrive

  /// All threads of the cluster, before add().
  __device__ __forceinline__ void init() {
    if constexpr (kCluster > 1) {
      if (threadIdx.x == 0) {
        mbarrier_init(&full);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(sums));
      }
      cluster_barrier_relaxed();
    }
  }
  /// Returns the sum to all threads; only once. A block that has received all sums may exit: nobody stores to
  /// it any more.
  __device__ __forceinline__ float add(float x) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_reduce<Sum>(x);
    if constexpr (kCluster > 1) {
      float* const slot = &sums[blockIdx.x % kCluster * kWarps + warp];
      if (lane < kCluster) cluster_store_async<1>({{x}}, slot, &full, lane);
      mbarrier_wait_cluster(&full, 0);
    } else {
      if (lane == 0) sums[warp] = x;
      __syncthreads();
    }
    float total[4] = {};  // broadcast reads and independent sums take less time than shuffles
#pragma unroll
    for (int i = 0; i < kCluster * kWarps; ++i) total[i % 4] += sums[i];
    return (total[0] + total[1]) + (total[2] + total[3]);
  }
};

template <class T, int kHidden, int kRanks, int kBlock, int kCluster = 1>
__global__ void __launch_bounds__(kBlock)
    all_reduce_add_rms_norm_one_shot(AllReduceAddRmsNormArgs args, const __grid_constant__ Peers peers) {
  constexpr int kVec = kVec16<T>;
  constexpr int kRow = kHidden / kVec, kPart = ceil_div(kRow, kCluster);  // vectors of a row, of a block
  constexpr int kPerThread = ceil_div(kPart, kBlock), kOthers = kRanks - 1;
  static_assert(kHidden % kVec == 0);
  __shared__ ClusterSum<kBlock, kCluster> squares_of_row;
  const int rank = peers.rank;
  const int token = blockIdx.x / kCluster, part = blockIdx.x % kCluster * kPart;
  const long long row = static_cast<long long>(token) * kHidden;
  const int vectors = args.tokens * kRow;
  const auto vector = [&](int j) { return part + j * kBlock + static_cast<int>(threadIdx.x); };  // of the row
  const auto valid = [&](int j) {
    return (kPart % kBlock == 0 || static_cast<int>(threadIdx.x) + j * kBlock < kPart) &&
           (kRow % kCluster == 0 || vector(j) < kRow);
  };
  const auto load = [&](const void* tensor, long long first, int j) {
    return load_vec<kVec>(static_cast<const T*>(tensor) + first + vector(j) * kVec);
  };

  Vec<T, kVec> w[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) w[j] = load(args.weight, 0, j);
  pdl_launch_dependents();
  squares_of_row.init();
  pdl_wait();

  const PeerSlots slots(peers, kRanks * vectors);
  Vec<T, kVec> in[kPerThread], residual[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) in[j] = load(args.x, row, j);
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) residual[j] = load(args.residual, row, j);
  PeerPacket own[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    own[j] = PeerPacket::pack<T>(in[j]);
#pragma unroll
    for (int i = 0; i < kOthers; ++i)
      if (valid(j))
        own[j].store(slots.at(next_peer<kRanks>(rank, i), rank * vectors + token * kRow + vector(j)));
  }
  slots.count_launch();

  PeerPacket received[kPerThread * kOthers];
  receive(
      received, [&](int i) { return valid(i / kOthers); },
      [&](int i) {
        const int from = other_rank(rank, i % kOthers);
        return slots.at(rank, from * vectors + token * kRow + vector(i / kOthers));
      });
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j)) {
      in[j] = add_rounded(sum_ranks<T, kRanks>(own[j], received + j * kOthers, rank), residual[j]);
      store_vec<kVec>(static_cast<T*>(args.residual_out) + row + vector(j) * kVec, in[j]);
      add_squares(squares, in[j]);
    }
  const float scale = rsqrtf(squares_of_row.add(squares) / kHidden + args.eps);
#pragma unroll
  for (int j = 0; j < kPerThread; ++j)
    if (valid(j))
      store_scaled<kCacheDefault>(static_cast<T*>(args.y) + row + vector(j) * kVec, in[j], scale, w[j]);
}

}  // namespace warptune
