// Streaming tensor-core GEMM for 2 to 64 tokens (streaming_mma.cuh), weights and x by TMA (sm_90).
// Loads: one lane of a producer warp. A TMA tile is 8 rows of weight, or all tokens of x, by kTileK columns:
//   tensor maps [in / 64][rows][64], so that a tile lies as column tiles (64 columns) with the 128-byte
//   swizzle. Weights are evicted first from the L2. `in` is a multiple of 64.
#include "kernels/common/tma.cuh"
#include "kernels/linear/streaming_mma.cuh"

namespace warptune {

/// Loads by one thread. The full barrier has one arrival per phase and counts the bytes.
template <class S>
struct TmaLoader {
  const TensorMap &weight, &x;
  unsigned long long weight_policy;

  __device__ __forceinline__ void expect(Mbarrier* full, int slots, bool with_x) const {
    mbarrier_arrive_expect_tx(full, slots * S::kSlotsOfUnit * S::kSlotBytes + (with_x ? S::kXBytes : 0));
  }
  __device__ __forceinline__ void load_weights(unsigned char* to, int first, int outputs, int step,
                                               Mbarrier* full) const {
    for (int u = 0; u < ceil_div(outputs, 8); ++u)
#pragma unroll
      for (int half = 0; half < S::kSlotsOfUnit; ++half)  // with SwiGLU: gate rows, then their up rows
        tma_load_3d(to + (u * S::kSlotsOfUnit + half) * S::kSlotBytes, weight, 0,
                    first + u * 8 + half * S::kOut, step * S::kColumnTiles, full, weight_policy);
  }
  __device__ __forceinline__ void load_x(unsigned char* to, int step, Mbarrier* full) const {
    tma_load_3d(to, x, 0, 0, step * S::kColumnTiles, full);
  }
  __device__ __forceinline__ void commit(Mbarrier*) const {}
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kBlocksPerSm,
          int kWarpsM, int kWarpsK, int kRows, int kTileK, int kStages, int kResidentX, int kCluster>
__global__ void __launch_bounds__(32 * (kWarpsM * kWarpsK + 1), kBlocksPerSm)
    linear_mma_bulk_copy(LinearArgsOf<kPrologue, kEpilogue> args, const __grid_constant__ TensorMap weight,
                         const __grid_constant__ TensorMap x) {
  using S = SkinnyGemm<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWarpsM, kWarpsK, kRows, kTileK,
                       kStages, kResidentX != 0, kCluster>;
  [[maybe_unused]] static constexpr int kSharedBytes = S::kSharedBytes;
  extern __shared__ __align__(1024) unsigned char memory[];
  const SkinnyShared<S> shared{memory};
  const auto meet = [] {
    if constexpr (kCluster > 1)
      cluster_barrier();
    else
      __syncthreads();
    pdl_launch_dependents();
    pdl_wait();
  };

  if (threadIdx.x == S::kThreads) {
    tma_prefetch_descriptor(weight);
    tma_prefetch_descriptor(x);
    shared.init_barriers(1);
    mbarrier_init_fence();
  }
  if (threadIdx.x >= S::kThreads) {
    SkinnyProducer<S, TmaLoader<S>> producer({weight, x, l2_evict_first_policy()}, shared);
    if (threadIdx.x == S::kThreads) producer.load_first_weights();
    __syncwarp();
    meet();
    if (threadIdx.x == S::kThreads) producer.load_rest();
    __syncwarp();
  } else {
    meet();
    consume<S>(args, shared);
  }
  if constexpr (kCluster > 1) cluster_barrier_relaxed();  // no block exits while another reads its sums
}

}  // namespace warptune
