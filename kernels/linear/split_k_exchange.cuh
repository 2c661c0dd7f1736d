#pragma once
// Split K of the streaming wgmma GEMMs without a barrier of the cluster. The warpgroups that share an m64
// tile, in one block or in several of a cluster, are its parts. Each owns some of the tokens, and sends its
// sums of the others from registers to their owners (st.async), whose mbarrier counts the bytes. With too few
// tokens for that, part 0 owns all.
#include "kernels/common/cluster.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// S: as in streaming_wgmma.cuh.
template <class S>
struct SplitKExchange {
  static constexpr int kParts = S::kClusterK * S::kWarpgroupsK;
  /// The epilogue takes vectors of 16 tokens.
  static constexpr int kOwners = S::kN % (16 * kParts) == 0 ? kParts : 1;
  static constexpr int kTokens = S::kN / kOwners;  // of an owner
  /// The sums of a thread in an owner's tokens of an m64 tile, and vectors of a message.
  static constexpr int kSums = kTokens / 2, kVectors = S::kMatrices * S::kSubtiles * kSums / 4;
  static constexpr int kReceivers = 128 * S::kWarpgroupsM * (kOwners > 1 ? S::kWarpgroupsK : 1);

  /// Where the sums of the others arrive. The stages are in use until the last block has ended its main loop.
  struct Inbox {
    Vec<float, 4> sums[max_of(kParts - 1, 1)][kVectors][kReceivers];
    Mbarrier full;

    /// One thread, before the barrier of the cluster that makes mbarriers visible.
    __device__ __forceinline__ void init() {
      mbarrier_init(&full, 1);
      mbarrier_arrive_expect_tx(&full, sizeof(sums));
    }
  };
  struct NoInbox {
    __device__ __forceinline__ void init() {}
  };
  using OptionalInbox = typename Conditional<(kParts > 1), Inbox, NoInbox>::type;

  using Sums = float[S::kMatrices][S::kSubtiles][S::kN / 2];
  using OwnSums = float[S::kMatrices][S::kSubtiles][kSums];

  /// Sends the sums of part `part` of m64 tiles `index`, index + kWarpgroupsM and so on to their owners.
  static __device__ __forceinline__ void send(const Sums& sum, Inbox& inbox, int part, int index,
                                              int rank_m) {
#pragma unroll
    for (int owner = 0; owner < kOwners; ++owner) {
      if (owner == part) continue;
      auto& to = inbox.sums[part < owner ? part : part - 1];
      const int warpgroup = owner % S::kWarpgroupsK * S::kWarpgroupsM + index,
                receiver = warpgroup * 128 + static_cast<int>(threadIdx.x) % 128;
      for_each_vector([&](int vector, int matrix, int m, int first) {
        Vec<float, 4> v;
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = sum[matrix][m][owner * kSums + first + i];
        if constexpr (S::kCluster == 1)  // where st.async is an illegal instruction
          to[vector][receiver] = v;
        else
          cluster_store_async(v, &to[vector][receiver], &inbox.full,
                              owner / S::kWarpgroupsK * S::kClusterM + rank_m);
      });
    }
    if constexpr (S::kCluster == 1) named_barrier_sync(1, S::kConsumers);
  }
  /// Adds up the sums of an owner's tokens, when those of all other parts have come.
  static __device__ __forceinline__ void receive(OwnSums& total, const Sums& sum, Inbox& inbox, int owner) {
#pragma unroll
    for (int matrix = 0; matrix < S::kMatrices; ++matrix)
#pragma unroll
      for (int m = 0; m < S::kSubtiles; ++m)
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
          total[matrix][m][i] = sum[matrix][m][i];
#pragma unroll
          for (int o = 1; o < kOwners; ++o)
            if (o == owner) total[matrix][m][i] = sum[matrix][m][o * kSums + i];
        }
    if constexpr (S::kCluster > 1) mbarrier_wait_cluster(&inbox.full, 0);
#pragma unroll
    for (int from = 0; from < kParts - 1; ++from)
      for_each_vector([&](int vector, int matrix, int m, int first) {
        const Vec<float, 4> v = inbox.sums[from][vector][threadIdx.x];
#pragma unroll
        for (int i = 0; i < 4; ++i) total[matrix][m][first + i] += v[i];
      });
  }

 private:
  /// Calls f(vector, matrix, m, first sum) for each vector of four sums of an owner.
  template <class F>
  static __device__ __forceinline__ void for_each_vector(const F& f) {
#pragma unroll
    for (int matrix = 0; matrix < S::kMatrices; ++matrix)
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
  static constexpr int kN = SplitKExchange<S>::kTokens;
};

}  // namespace warptune
