// Warp-specialized persistent GEMM on Hopper (TMA, wgmma, sm_90a), for prompts: 65 tokens and more.
// Grid: one persistent block per SM. A work tile is kTileM tokens x kTileN rows of weight. The kCluster
//   blocks of a cluster take adjacent token tiles of the same rows (grouped_scheduler.cuh).
// Roles: one thread of the producer warpgroup issues all TMA loads; two consumer warpgroups compute half of
//   the tokens each (m64nNk16, both operands in shared memory). setmaxnreg gives them its registers.
// Pipeline: kStages stages of 64 columns of x and weight, 128-byte swizzle, which run on across work tiles.
//   Each block of a cluster loads a half of the weight tile and multicasts it.
// Sync: full/empty mbarrier per stage. Multicast writes to all blocks of a cluster, so an empty barrier
//   counts the consumer warps of all.
// Epilogue: from registers (wgmma_epilogue.cuh); it overlaps wgmma of the other consumer. With SwiGLU half
//   of a weight tile are gate rows, half the up rows of the same outputs: both sums lie in one thread.
// PDL: the weights of the first stages are loaded before pdl_wait().
// Wins: prompts of 512 tokens and more run at the speed of cuBLASLt; with SwiGLU fused they beat it.
// `in` and `out` are multiples of 8. Source: CUTLASS, warp-specialized cooperative GEMM for sm_90.
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/linear/grouped_scheduler.cuh"
#include "kernels/linear/wgmma_epilogue.cuh"

namespace warptune {

template <class T, int kIn, int kOut, int kBias, int kEpilogue, int kTileM, int kTileN, int kStages,
          int kCluster, int kGroupM>
struct WgmmaGemm {
  using Args = LinearArgsOf<kPrologueNone, kEpilogue>;
  using Epilogue = WgmmaEpilogue<T, kOut, kBias, kEpilogue, kTileN>;
  using Scheduler = GroupedScheduler<kOut, kTileM, Epilogue::kTileOut, kCluster, kGroupM>;
  using State = PipelineState<kStages>;
  static constexpr int kConsumers = 2, kThreads = 128 * (kConsumers + 1), kTileK = 64,
                       kSteps = ceil_div(kIn, kTileK);
  static constexpr int kTokens = kTileM / kConsumers, kSubtiles = kTokens / 64;  // of a consumer
  static constexpr int kXBytes = kTileM * 128, kWeightBytes = kTileN * 128;      // of a stage
  static_assert(kTokens % 64 == 0 && kTileN % 16 == 0 && kCluster <= 2);

  struct Storage {
    unsigned char x[kStages][kXBytes], weight[kStages][kWeightBytes];
    Mbarrier full[kStages], empty[kStages];
  };

  /// One thread.
  struct Producer {
    const TensorMap &weight_map, &x_map;
    Storage& shared;
    Scheduler scheduler;
    State state;

    /// Begins a stage and loads this block's part of its weights.
    __device__ __forceinline__ void load_weight(const WorkTile& work, int step) {
      constexpr int kHalf = kTileN / 2;
      Mbarrier* const full = &shared.full[state.index];
      mbarrier_wait(&shared.empty[state.index], state.phase ^ 1);
      mbarrier_arrive_expect_tx(full, kXBytes + kWeightBytes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned char* const to = shared.weight[state.index] + half * kHalf * 128;
        const int row = work.out + half * (Epilogue::kSwiglu ? kOut : kHalf);
        if constexpr (kCluster == 1)
          tma_load_2d(to, weight_map, step * kTileK, row, full);
        else if (half == scheduler.rank)
          tma_load_2d_multicast(to, weight_map, step * kTileK, row, full, 3);
      }
    }
    __device__ __forceinline__ void load_x(const WorkTile& work, int step) {
      tma_load_2d(shared.x[state.index], x_map, step * kTileK, work.token, &shared.full[state.index]);
      state.advance();
    }
    __device__ __forceinline__ void run() {
      constexpr int kFirst = min_of(kStages, kSteps);
      WorkTile work = scheduler.work_tile();  // the grid has no more clusters than work tiles
      const State first = state;
      for (int step = 0; step < kFirst; ++step, state.advance()) load_weight(work, step);
      pdl_wait();
      state = first;
      for (int step = 0; step < kFirst; ++step) load_x(work, step);
      for (int step = kFirst;; step = 0) {
        for (; step < kSteps; ++step) {
          load_weight(work, step);
          load_x(work, step);
        }
        scheduler.advance();
        if (!scheduler.has_work()) return;
        work = scheduler.work_tile();
      }
    }
  };

  /// A consumer warpgroup: tokens kTokens * index and following of each work tile.
  struct Consumer {
    const Args& args;
    Storage& shared;
    const int index, lane;
    const unsigned x, weight;
    Scheduler scheduler;
    State state;
    float sum[kSubtiles][kTileN / 2];

    __device__ __forceinline__ Consumer(const Args& args, Storage& shared, int index)
        : args(args),
          shared(shared),
          index(index),
          lane(threadIdx.x % 32),
          x(shared_address(shared.x) + index * kTokens * 128),
          weight(shared_address(shared.weight)),
          scheduler(args.tokens) {}

    /// Issues sum += x . weight^T of a stage.
    __device__ __forceinline__ void issue(bool accumulate) {
      const unsigned long long a = wgmma_descriptor_swizzle_128b(x + state.index * kXBytes),
                               b = wgmma_descriptor_swizzle_128b(weight + state.index * kWeightBytes);
#pragma unroll
      for (int m = 0; m < kSubtiles; ++m) warpgroup_fence_operand(sum[m]);
      warpgroup_arrive();
#pragma unroll
      for (int k = 0; k < kTileK / 16; ++k)
#pragma unroll
        for (int m = 0; m < kSubtiles; ++m)
          wgmma<T, kTileN>(sum[m], wgmma_descriptor_advance(a, m * 64 * 128 + k * 32),
                           wgmma_descriptor_advance(b, k * 32), accumulate || k > 0);
      warpgroup_commit_batch();
    }
    __device__ __forceinline__ void release(int stage) const {
      __syncwarp();
      if constexpr (kCluster == 1) {
        if (lane == 0) mbarrier_arrive(&shared.empty[stage]);
      } else {
        if (lane < kCluster) mbarrier_arrive_remote(&shared.empty[stage], lane);
      }
    }
    /// Issues all steps of a work tile; a stage is released once the step after it is issued. Returns the
    /// last stage, whose wgmma are in flight.
    __device__ __forceinline__ int mainloop() {
      int last = 0;
      for (int step = 0; step < kSteps; ++step) {
        mbarrier_wait(&shared.full[state.index], state.phase);
        issue(step > 0);
        if (step > 0) {
          warpgroup_wait<1>();
          release(last);
        }
        last = state.index;
        state.advance();
      }
      return last;
    }
    __device__ __forceinline__ void run() {
      for (; scheduler.has_work(); scheduler.advance()) {
        const WorkTile work = scheduler.work_tile();
        const int token = work.token + index * kTokens + threadIdx.x % 128 / 32 * 16 + lane / 4;
        const int last = mainloop();
        if constexpr (kSubtiles == 1) {
          Epilogue epilogue(args, token, work.out, lane);
          epilogue.load_residual();
          wait_sums(last);
          epilogue.store(sum[0]);
        } else {
          wait_sums(last);
#pragma unroll
          for (int m = 0; m < kSubtiles; ++m) {
            Epilogue epilogue(args, token + m * 64, work.out, lane);
            epilogue.load_residual();
            epilogue.store(sum[m]);
          }
        }
      }
    }
    __device__ __forceinline__ void wait_sums(int last_stage) {
      warpgroup_wait<0>();
#pragma unroll
      for (int m = 0; m < kSubtiles; ++m) warpgroup_fence_operand(sum[m]);
      release(last_stage);
    }
  };

  static __device__ __forceinline__ void run(const Args& args, const TensorMap& weight_map,
                                             const TensorMap& x_map, unsigned char* memory) {
    Storage& shared = *reinterpret_cast<Storage*>(memory);
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
      tma_prefetch_descriptor(weight_map);
      tma_prefetch_descriptor(x_map);
      for (int i = 0; i < kStages; ++i)
        mbarrier_init(&shared.full[i], 1), mbarrier_init(&shared.empty[i], 4 * kConsumers * kCluster);
      mbarrier_init_fence();
    }
    if constexpr (kCluster > 1)
      cluster_barrier();
    else
      __syncthreads();
    pdl_launch_dependents();
    if (group == 0) {
      warpgroup_reg_dealloc<40>();
      if (threadIdx.x == 0)
        Producer{weight_map, x_map, shared, Scheduler(args.tokens)}.run();
      else
        pdl_wait();
      __syncwarp();
    } else {
      warpgroup_reg_alloc<232>();
      pdl_wait();
      Consumer(args, shared, group - 1).run();
    }
    // No block exits while another writes to its shared memory or arrives at its barriers.
    if constexpr (kCluster > 1) cluster_barrier();
  }
};

template <class T, int kIn, int kOut, int kBias, int kEpilogue, int kTileM, int kTileN, int kStages,
          int kCluster, int kGroupM>
__global__ void __launch_bounds__(384, 1)
    linear_wgmma(LinearArgsOf<kPrologueNone, kEpilogue> args, const __grid_constant__ TensorMap weight,
                 const __grid_constant__ TensorMap x) {
  using Gemm = WgmmaGemm<T, kIn, kOut, kBias, kEpilogue, kTileM, kTileN, kStages, kCluster, kGroupM>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename Gemm::Storage);
  extern __shared__ __align__(1024) unsigned char memory[];
  Gemm::run(args, weight, x, memory);
}

}  // namespace warptune
