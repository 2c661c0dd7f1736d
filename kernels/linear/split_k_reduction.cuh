#pragma once
// Split-K reduction of the streaming wgmma GEMMs: a reduce-scatter through distributed shared memory (sm_90).
// The warpgroups that share an m64 tile, in one block or in several of a cluster, are its splits. Each split
// owns some of the tokens. It sends its partial sums of the other tokens from registers to their owners
// (st.async), and adds the partial sums that it receives to its own.
// Sync: an mbarrier per block counts the received bytes; the cluster needs no barrier.
// Where 16 tokens per split do not divide kN, split 0 owns all tokens.
#include "kernels/common/cluster.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// S: as in streaming_wgmma.cuh.
template <class S>
struct SplitKReduction {
  static constexpr int kSplits = S::kClusterK * S::kWarpgroupsK;
  /// The epilogue stores 16 tokens at a time.
  static constexpr int kOwners = S::kN % (16 * kSplits) == 0 ? kSplits : 1;
  static constexpr int kTokens = S::kN / kOwners;  // per owner
  /// Sums of a thread for these tokens of an m64 tile, and vectors that it sends to an owner.
  static constexpr int kSums = kTokens / 2, kVectors = S::kSumMatrices * S::kSubtiles * kSums / 4;
  static constexpr int kReceivers = 128 * S::kWarpgroupsM * (kOwners > 1 ? S::kWarpgroupsK : 1);

  /// Receives the sums of the other splits. It has its own memory: the stages are in use until the last block
  /// of the cluster has ended its main loop.
  struct ReceiveBuffer {
    Vec<float, 4> sums[max_of(kSplits - 1, 1)][kVectors][kReceivers];
    Mbarrier full;

    /// One thread calls, before the barrier of the cluster that makes the mbarriers visible.
    __device__ __forceinline__ void init() {
      mbarrier_init(&full, 1);
      mbarrier_arrive_expect_tx(&full, sizeof(sums));
    }
  };
  struct NoBuffer {
    __device__ __forceinline__ void init() {}
  };
  using OptionalBuffer = typename Conditional<(kSplits > 1), ReceiveBuffer, NoBuffer>::type;

  using Sums = float[S::kSumMatrices][S::kSubtiles][S::kN / 2];
  using OwnSums = float[S::kSumMatrices][S::kSubtiles][kSums];

  /// Sends the sums of `split` to their owners. `index`: the warpgroup's m64 tile among those of the block.
  static __device__ __forceinline__ void send(const Sums& sum, ReceiveBuffer& buffer, int split, int index,
                                              int rank_m) {
#pragma unroll
    for (int owner = 0; owner < kOwners; ++owner) {
      if (owner == split) continue;
      auto& to = buffer.sums[split < owner ? split : split - 1];
      const int warpgroup = owner % S::kWarpgroupsK * S::kWarpgroupsM + index,
                receiver = warpgroup * 128 + static_cast<int>(threadIdx.x) % 128;
      for_each_vector([&](int vector, int matrix, int m, int first) {
        Vec<float, 4> v;
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = sum[matrix][m][owner * kSums + first + i];
        if constexpr (S::kCluster == 1)  // st.async is an illegal instruction there
          to[vector][receiver] = v;
        else
          cluster_store_async(v, &to[vector][receiver], &buffer.full,
                              owner / S::kWarpgroupsK * S::kClusterM + rank_m);
      });
    }
    if constexpr (S::kCluster == 1) named_barrier_sync(1, S::kConsumers);
  }
  /// Waits for the sums of the other splits, and adds them to those of `owner`.
  static __device__ __forceinline__ void receive(OwnSums& total, const Sums& sum, ReceiveBuffer& buffer,
                                                 int owner, unsigned consumer = threadIdx.x) {
#pragma unroll
    for (int matrix = 0; matrix < S::kSumMatrices; ++matrix)
#pragma unroll
      for (int m = 0; m < S::kSubtiles; ++m)
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
          total[matrix][m][i] = sum[matrix][m][i];
#pragma unroll
          for (int o = 1; o < kOwners; ++o)
            if (o == owner) total[matrix][m][i] = sum[matrix][m][o * kSums + i];
        }
    if constexpr (S::kCluster > 1) mbarrier_wait_cluster(&buffer.full, 0);
#pragma unroll
    for (int from = 0; from < kSplits - 1; ++from)
      for_each_vector([&](int vector, int matrix, int m, int first) {
        const Vec<float, 4> v = buffer.sums[from][vector][consumer];
#pragma unroll
        for (int i = 0; i < 4; ++i) total[matrix][m][first + i] += v[i];
      });
  }

 private:
  /// Calls f(vector, matrix, m, first sum) for each vector of four sums of an owner.
  template <class F>
  static __device__ __forceinline__ void for_each_vector(const F& f) {
#pragma unroll
    for (int matrix = 0; matrix < S::kSumMatrices; ++matrix)
#pragma unroll
      for (int m = 0; m < S::kSubtiles; ++m)
#pragma unroll
        for (int first = 0; first < kSums; first += 4)
          f(((matrix * S::kSubtiles + m) * kSums + first) / 4, matrix, m, first);
  }
};

/// S with the tokens of an owner.
template <class S>
struct OwnedTokens : S {
  static constexpr int kN = SplitKReduction<S>::kTokens;
};

}  // namespace warptune
